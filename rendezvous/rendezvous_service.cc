#include "rendezvous/rendezvous_service.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "rendezvous/grpc_host.h"
#include "rendezvous/grpc_support.h"
#include "rendezvous/key_table.h"
#include "rendezvous/membership_service.h"
#include "rendezvous/net/acceptor.h"
#include "rendezvous/store_service.h"

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

}  // namespace

struct RendezvousService::Impl {
  Impl(Listener listener, const JobKey& key, const std::string& job,
       std::chrono::milliseconds dead_after)
      : acceptor(std::move(listener), key, introduce(job)),
        store(table),
        membership({.silence = {.dead_after = dead_after}},
                   [this](std::uint64_t generation) { store.begin_generation(generation); }) {
    acceptor.prepare();  // a failure after gRPC's start would wait for gRPC's end
    host.emplace(
        acceptor,
        std::vector<std::string>{std::string(kStorePurpose), std::string(kMembershipPurpose)},
        std::vector<grpc::Service*>{&store, &membership});
    acceptor.start();
  }

  KeyTable table;
  Acceptor acceptor;
  StoreService store;
  MembershipService membership;
  std::optional<GrpcHost> host;
};

RendezvousService::RendezvousService(Listener listener, const JobKey& key, const std::string& job,
                                     std::chrono::milliseconds dead_after)
    : impl_(std::make_unique<Impl>(std::move(listener), key, job, dead_after)) {}

RendezvousService::~RendezvousService() {
  shutdown(Deadline::after(std::chrono::seconds(0)));
}

const Address& RendezvousService::address() const noexcept {
  return impl_->acceptor.address();
}

void RendezvousService::begin_generation(std::uint64_t generation) {
  impl_->store.begin_generation(generation);
}

void RendezvousService::shutdown(Deadline deadline) {
  // A node that comes now looks for the job's next service.
  impl_->acceptor.stop();
  impl_->membership.wait_empty(deadline);
  impl_->table.close("the rendezvous service has ended");
  // An idle client keeps its connection, and gRPC would wait for it.
  impl_->host->shutdown(Deadline::after(kServiceFarewell));
}

}  // namespace dl::rendezvous
