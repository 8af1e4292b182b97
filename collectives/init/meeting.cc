#include "collectives/init/meeting.h"

#include <unistd.h>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "rendezvous/file_store.h"
#include "rendezvous/grpc_store.h"
#include "rendezvous/grpc_store_server.h"
#include "rendezvous/net/acceptor.h"
#include "rendezvous/net/address.h"
#include "rendezvous/prefix_store.h"

namespace dl::collectives {
namespace {

using rendezvous::Acceptor;
using rendezvous::Endpoint;
using rendezvous::GrpcStore;
using rendezvous::GrpcStoreServer;
using rendezvous::JobKey;
using rendezvous::Listener;
using rendezvous::PrefixStore;

constexpr std::chrono::seconds kTimeToLeave{5};

// The key of a job without one: no secret, but the same handshake with its checks. Loopback only.
JobKey open_key() {
  return JobKey::from_hex(std::string(2 * JobKey::kBytes, '0'));
}

rendezvous::Hello hello_of(const MeetingOptions& options) {
  return {.job = options.job,
          .generation = options.generation,
          .from = fmt::format("rank {} (pid {})", options.launch.rank, ::getpid()),
          .rank = options.launch.rank};
}

// A store that somebody else serves: dlrun's, or rank 0's.
class RemoteMeeting final : public Meeting {
 public:
  RemoteMeeting(const MeetingOptions& options, const Endpoint& endpoint,
                const std::optional<JobKey>& key, Deadline deadline)
      : store_({.endpoint = endpoint, .key = key ? *key : open_key(), .hello = hello_of(options)},
               deadline),
        generation_(store_, PrefixStore::generation_prefix(options.generation)) {
    key_ = key;
    route_to_ = endpoint.host;
  }
  rendezvous::Store& store() noexcept override { return generation_; }

 private:
  GrpcStore store_;
  PrefixStore generation_;
};

// The store that rank 0 serves itself.
class HostedMeeting final : public Meeting {
 public:
  HostedMeeting(const MeetingOptions& options, const Endpoint& endpoint,
                const std::optional<JobKey>& key)
      : acceptor_(Listener::bind({.host = endpoint.host, .port = endpoint.port}),
                  key ? *key : open_key(), hello_of(options)),
        server_(acceptor_),
        generation_(server_.local(), PrefixStore::generation_prefix(options.generation)) {
    key_ = key;
    route_to_ = endpoint.host;
    acceptor_.start();
  }
  rendezvous::Store& store() noexcept override { return generation_; }

 private:
  Acceptor acceptor_;
  GrpcStoreServer server_;
  PrefixStore generation_;
};

class FileMeeting final : public Meeting {
 public:
  FileMeeting(const MeetingOptions& options, const std::string& directory, Deadline deadline)
      : store_(directory),
        generation_(store_, PrefixStore::generation_prefix(options.generation)),
        size_(options.launch.world_size) {
    // Keys and addresses of ranks that are gone would send this run's into the void.
    const std::string here = fmt::format("here/{}", options.launch.rank);
    DL_CHECK(generation_.add(here, 1, deadline) == 1, kInvalidArgument,
             "file://{0}: rank {1} of an earlier run, or another rank {1} of this one, has been "
             "there; remove the directory, or give each run a new one",
             directory, options.launch.rank);
    key_ = JobKey::from_environment();
    if (key_) return;
    // Whoever can write there belongs to the job (FileStore): the directory keeps the key as well
    // as a key file would.
    if (options.launch.rank == 0) generation_.set("key", JobKey::generate().hex(), deadline);
    key_ = JobKey::from_hex(generation_.get("key", deadline));
  }
  // The last rank to leave takes everything away. What a rank that was killed leaves behind, the
  // next run refuses.
  ~FileMeeting() override {
    try {
      const Deadline soon = Deadline::after(kTimeToLeave);
      if (generation_.add("left", 1, soon) == size_) store_.remove(soon);
    } catch (const std::exception& error) {
      log::warning("leaving the other ranks: {}", error.what());
    }
  }
  rendezvous::Store& store() noexcept override { return generation_; }

 private:
  rendezvous::FileStore store_;
  PrefixStore generation_;
  int size_;
};

std::unique_ptr<Meeting> meet_at(const MeetingOptions& options, const Endpoint& endpoint,
                                 Deadline deadline) {
  const std::optional<JobKey> key = JobKey::from_environment();
  if (!key) {
    for (const rendezvous::Address& address : rendezvous::resolve(endpoint, deadline)) {
      DL_CHECK(
          address.is_loopback(), kInvalidArgument,
          "there is no job key, and {} is not a loopback address; start the ranks with dlrun, or "
          "give all of them the same DLRUN_KEY_FILE",
          endpoint.text());
    }
  }
  if (options.launch.rank == 0) return std::make_unique<HostedMeeting>(options, endpoint, key);
  return std::make_unique<RemoteMeeting>(options, endpoint, key, deadline);
}

std::unique_ptr<Meeting> meet_by_environment(const MeetingOptions& options, Deadline deadline) {
  if (const auto store = env::get(env::Var::kStore)) {
    const std::optional<JobKey> key = JobKey::from_environment();
    DL_CHECK(
        key.has_value(), kInvalidArgument,
        "DLRUN_STORE is {} and there is no job key; DLRUN_KEY_FD or DLRUN_KEY_FILE must come with "
        "it",
        *store);
    return std::make_unique<RemoteMeeting>(options, Endpoint::parse(*store), key, deadline);
  }
  const auto host = env::get(env::Var::kMasterAddr);
  const auto port = env::get_int(env::Var::kMasterPort);
  DL_CHECK(
      host && port, kInvalidArgument,
      "rank {} of {} (told by {}) does not know where the others are: {} is not set; start the "
      "program with dlrun, or set MASTER_ADDR and MASTER_PORT to where rank 0 may listen",
      options.launch.rank, options.launch.world_size, options.launch.told_by,
      host ? "MASTER_PORT" : "MASTER_ADDR");
  DL_CHECK(*port > 0 && *port < 65536, kInvalidArgument, "MASTER_PORT={} is no port number", *port);
  return meet_at(options, {.host = *host, .port = static_cast<std::uint16_t>(*port)}, deadline);
}

}  // namespace

std::unique_ptr<Meeting> make_meeting(const MeetingOptions& options, Deadline deadline) {
  const std::string_view method = options.init_method;
  constexpr std::string_view kTcp = "tcp://";
  constexpr std::string_view kFile = "file://";
  if (method == "env://") return meet_by_environment(options, deadline);
  if (method.starts_with(kTcp)) {
    return meet_at(options, Endpoint::parse(method.substr(kTcp.size())), deadline);
  }
  if (method.starts_with(kFile) && method.substr(kFile.size()).starts_with('/')) {
    return std::make_unique<FileMeeting>(options, std::string(method.substr(kFile.size())),
                                         deadline);
  }
  throw_error(ErrorKind::kInvalidArgument,
              "init method is '{}', wanted env://, tcp://host:port or file:///directory", method);
}

}  // namespace dl::collectives
