#include "rendezvous/service/rendezvous_service.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "rendezvous/grpc/grpc_host.h"
#include "rendezvous/grpc/grpc_support.h"
#include "rendezvous/net/connect/acceptor.h"
#include "rendezvous/service/membership_service.h"
#include "rendezvous/service/store_service.h"
#include "rendezvous/stores/key_table.h"

namespace dl::rendezvous {
namespace {

// Time for sending the last answers.
constexpr std::chrono::milliseconds kServiceFarewell{100};

Hello introduce(const std::string& job) {
  std::array<char, 200> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {.job = job,
          .generation = kAnyGeneration,
          .from = fmt::format("rendezvous ({}, pid {})", host.data(), ::getpid())};
}

// The listener at the endpoint of a service that moves (RendezvousServiceOptions::moves).
class Door {
 public:
  Door(Listener listener, const JobKey& key, const std::string& job)
      : port_(listener.port()), key_(key), job_(job) {
    const Lock lock(mutex_);
    open(std::move(listener));
  }
  // Call it once. Before that, the door serves no client.
  void serve(GrpcHost& host) {
    const Lock lock(mutex_);
    host_ = &host;
    start();
  }

  // From now on another process can listen at the port.
  void close() noexcept {
    const Lock lock(mutex_);
    give_up();
  }
  void close_for_good() noexcept {
    const Lock lock(mutex_);
    give_up();
    host_ = nullptr;
  }
  // Tries to open it again. A process of the last generation may still have the port.
  void open_again() {
    const Lock lock(mutex_);
    if (acceptor_ || host_ == nullptr) return;
    try {
      open(Listener::bind({.port = port_}));
      start();
    } catch (const Error&) {
      acceptor_.reset();
    }
  }

 private:
  void open(Listener listener) DL_REQUIRES(mutex_) {
    acceptor_.emplace(std::move(listener), key_, introduce(job_));
    acceptor_->prepare();
  }
  // The process that has started this one may have a copy of the listener's descriptor.
  void give_up() noexcept DL_REQUIRES(mutex_) {
    if (acceptor_) acceptor_->give_up_address();
    acceptor_.reset();
  }
  void start() DL_REQUIRES(mutex_) {
    host_->serve_through(*acceptor_);
    acceptor_->start();
  }

  Mutex mutex_;
  const std::uint16_t port_;
  const JobKey key_;
  const std::string job_;
  std::optional<Acceptor> acceptor_ DL_GUARDED_BY(mutex_);
  GrpcHost* host_ DL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace

struct RendezvousService::Impl {
  // `endpoint`: the listener of a service that moves; nullopt: it does not.
  Impl(std::optional<Listener> endpoint, Listener listener, const JobKey& key,
       const std::string& job, std::chrono::milliseconds dead_after)
      : door(endpoint ? std::make_unique<Door>(std::move(*endpoint), key, job) : nullptr),
        acceptor(std::move(listener), key, introduce(job)),
        store(table),
        membership({.silence = {.dead_after = dead_after},
                    .moves_to = door ? acceptor.address().port() : std::uint16_t{0}},
                   {.on_generation =
                        [this](std::uint64_t generation) {
                          store.begin_generation(generation);
                          if (door) door->close();
                        },
                    .on_gathering =
                        [this] {
                          if (door) door->open_again();
                        }}) {
    acceptor.prepare();  // a failure after gRPC's start would wait for gRPC's end
    host.emplace(
        acceptor,
        std::vector<std::string>{std::string(kStorePurpose), std::string(kMembershipPurpose)},
        std::vector<grpc::Service*>{&store, &membership});
    acceptor.start();
    if (door) door->serve(*host);
  }

  KeyTable table;
  std::unique_ptr<Door> door;
  Acceptor acceptor;
  StoreService store;
  MembershipService membership;
  std::optional<GrpcHost> host;
};

RendezvousService::RendezvousService(Listener listener, const JobKey& key, const std::string& job,
                                     const RendezvousServiceOptions& options)
    : impl_(options.moves ? std::make_unique<Impl>(std::move(listener), Listener::bind(), key, job,
                                                   options.dead_after)
                          : std::make_unique<Impl>(std::nullopt, std::move(listener), key, job,
                                                   options.dead_after)) {}

RendezvousService::~RendezvousService() {
  shutdown(Deadline::after(std::chrono::seconds(0)));
}

void RendezvousService::begin_generation(std::uint64_t generation) {
  impl_->store.begin_generation(generation);
}

void RendezvousService::shutdown(Deadline deadline) {
  // A node that comes now belongs to the job's next service.
  if (impl_->door) impl_->door->close_for_good();
  impl_->acceptor.stop();
  impl_->membership.wait_empty(deadline);
  impl_->table.close("the rendezvous service has ended");
  // Limit the time: gRPC would wait for idle clients, which keep their connections.
  impl_->host->shutdown(Deadline::after(kServiceFarewell));
}

}  // namespace dl::rendezvous
