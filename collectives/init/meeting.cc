#include "collectives/init/meeting.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "collectives/init/attendance/attendance.h"
#include "collectives/join/roster.h"
#include "collectives/process/at_exit.h"
#include "collectives/waiting/group_error.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/machine/namespaces.h"
#include "core/base/text/number.h"
#include "rendezvous/module/remote_store.h"
#include "rendezvous/net/connect/acceptor.h"
#include "rendezvous/net/socket/address.h"
#include "rendezvous/stores/file_store.h"
#include "rendezvous/stores/prefix_store.h"

namespace dl::collectives {
namespace {

using rendezvous::Acceptor;
using rendezvous::connect_store;
using rendezvous::Endpoint;
using rendezvous::JobKey;
using rendezvous::Listener;
using rendezvous::PrefixStore;

constexpr std::chrono::milliseconds kTimeToLeave{5000};
// Time to leave a directory's store after a failed init; the init's deadline may have passed.
constexpr std::chrono::milliseconds kTimeToGiveUp{100};
constexpr std::chrono::seconds kTimeToResolve{10};
// Time for the store to answer the rank that serves it: seconds on a loaded machine.
constexpr std::chrono::seconds kTimeToAnswer{20};

rendezvous::Hello hello_of(const MeetingOptions& options) {
  return {.job = options.job,
          .generation = options.generation,
          .from = fmt::format("rank {} (pid {})", options.launch.rank, ::getpid()),
          .rank = options.launch.rank};
}

std::string generation_of(const MeetingOptions& options) {
  return PrefixStore::generation_prefix(options.generation);
}

// This process, as errors of the init name it.
Identity self_of(const MeetingOptions& options) {
  Identity self = this_process(options.launch.rank, {});
  self.job_rank = options.job_rank;
  return self;
}

// A store that another process serves: dlrun, or rank 0.
class RemoteMeeting final : public Meeting {
 public:
  RemoteMeeting(const MeetingOptions& options, const Endpoint& endpoint,
                const std::optional<JobKey>& key, Deadline deadline)
      : store_(connect_store(
            {.endpoint = endpoint, .key = key ? *key : open_key(), .hello = hello_of(options)},
            deadline)),
        generation_(*store_, generation_of(options)),
        attendance_(generation_, options.name, self_of(options), deadline),
        place_(generation_, attendance_.place()) {
    key_ = key;
    route_to_ = endpoint.host;
  }
  ~RemoteMeeting() override { attendance_.leave(); }
  rendezvous::Store& store() noexcept override { return place_; }
  void check() override { attendance_.check(); }
  void check_absent(int rank) override { attendance_.check_absent(rank); }
  void joined() noexcept override { attendance_.leave(); }

 private:
  const std::unique_ptr<rendezvous::Store> store_;
  PrefixStore generation_;
  Attendance attendance_;
  PrefixStore place_;
};

// The address on which rank 0 listens for the other ranks. A name may lead other hosts to an
// address that it does not have on this host: Debian maps a host's own name to 127.0.1.1. In this
// case listen on all addresses, which is safe because every client must prove the key.
rendezvous::ListenOptions place_to_listen(const Endpoint& endpoint, bool has_key) {
  const bool is_name = endpoint.host != "localhost" &&
                       endpoint.host.find(':') == std::string::npos &&
                       endpoint.host.find_first_not_of("0123456789.") != std::string::npos;
  if (has_key && is_name) {
    const auto addresses = rendezvous::resolve(endpoint, Deadline::after(kTimeToResolve));
    if (addresses.size() > 1 || addresses.front().is_loopback()) return {.port = endpoint.port};
  }
  return {.host = endpoint.host, .port = endpoint.port};
}

// The store that rank 0 serves itself.
struct Hosted {
  Hosted(const MeetingOptions& options, const Endpoint& where, const JobKey& with, bool has_key)
      : endpoint(where),
        job(options.job),
        generation(options.generation),
        key(with),
        acceptor(Listener::bind(place_to_listen(where, has_key)), key, hello_of(options),
                 static_cast<std::size_t>(options.launch.world_size)) {
    acceptor.prepare();  // a failure after gRPC's start would wait for gRPC's end
    store = rendezvous::serve_store(acceptor);
    acceptor.start();
  }
  // Checks once that the store answers. gRPC does not report that it could not start a thread for
  // its server, and then the other ranks would seem to be missing.
  void require_answer(const MeetingOptions& options, Deadline deadline) {
    if (answers) return;
    try {
      const auto client =
          connect_store({.endpoint = endpoint, .key = key, .hello = hello_of(options)},
                        Deadline::earlier(deadline, Deadline::after(kTimeToAnswer)));
      client->try_get("answer", Deadline::earlier(deadline, Deadline::after(kTimeToAnswer)));
      answers = true;
    } catch (const Error& error) {
      throw_error(
          ErrorKind::kIo,
          "store: this rank serves the store, but the store does not answer ({}); does it get "
          "the threads and the memory that it needs? {}",
          error.what(), spawn_error_text(EAGAIN));
    }
  }
  bool serves(const MeetingOptions& options, const Endpoint& where, const JobKey& with) const {
    return where.text() == endpoint.text() && options.job == job &&
           options.generation == generation && with.bytes() == key.bytes();
  }

  Endpoint endpoint;
  std::string job;
  std::uint64_t generation;
  JobKey key;
  Acceptor acceptor;
  std::shared_ptr<rendezvous::Store> store;
  bool answers = false;
};

// The store that this process serves; constant-initialised. It is never destroyed, because threads
// of other ranks may be in a call when this process ends.
Mutex hosted_mutex;
Hosted* hosted DL_GUARDED_BY(hosted_mutex) = nullptr;

rendezvous::Store& host(const MeetingOptions& options, const Endpoint& endpoint,
                        const std::optional<JobKey>& key, Deadline deadline) {
  const JobKey with = key ? *key : open_key();
  const Lock lock(hosted_mutex);
  if (hosted == nullptr || !hosted->serves(options, endpoint, with)) {
    delete std::exchange(hosted, nullptr);
    hosted = new Hosted(options, endpoint, with, key.has_value());
  }
  hosted->require_answer(options, deadline);
  return *hosted->store;
}

class HostedMeeting final : public Meeting {
 public:
  HostedMeeting(const MeetingOptions& options, const Endpoint& endpoint,
                const std::optional<JobKey>& key, Deadline deadline)
      : generation_(host(options, endpoint, key, deadline), generation_of(options)),
        attendance_(generation_, options.name, self_of(options), deadline),
        place_(generation_, attendance_.place()) {
    key_ = key;
    route_to_ = endpoint.host;
  }
  ~HostedMeeting() override { attendance_.leave(); }
  rendezvous::Store& store() noexcept override { return place_; }
  void check() override { attendance_.check(); }
  void check_absent(int rank) override { attendance_.check_absent(rank); }
  void joined() noexcept override { attendance_.leave(); }

 private:
  PrefixStore generation_;
  Attendance attendance_;
  PrefixStore place_;
};

class FileMeeting final : public Meeting {
 public:
  FileMeeting(const MeetingOptions& options, const std::string& directory, Deadline deadline)
      : store_(directory), generation_(store_, generation_of(options)) {
    // First, because no rank removes anything while the counter is above 0.
    store_.add(kInside, 1, deadline);
    try {
      enter(options, directory, deadline);
    } catch (...) {
      leave();
      throw;
    }
    // Registered after the store's first use, so that it runs before OpenSSL's exit handler.
    at_exit_.emplace([this] { leave(); });
  }
  ~FileMeeting() override { leave(); }
  rendezvous::Store& store() noexcept override { return *place_; }
  void check() override { attendance_->check(); }
  void check_absent(int rank) override { attendance_->check_absent(rank); }
  void joined() noexcept override {
    has_joined_ = true;
    attendance_->leave();
  }

 private:
  static constexpr std::string_view kInside = "inside";

  void enter(const MeetingOptions& options, const std::string& directory, Deadline deadline) {
    // Refuse what an earlier run has left: its keys and addresses are wrong for this run.
    const int rank = options.launch.rank;
    if (!Attendance::enter_once(generation_, options.name, self_of(options), deadline)) {
      throw_error(ErrorKind::kInvalidArgument,
                  "file://{0}: rank {1} of an earlier run, or another rank {1} of this one, has "
                  "been there; remove the directory, or give each run a new one",
                  directory, rank);
    }
    attendance_.emplace(generation_, options.name, self_of(options), deadline);
    place_.emplace(generation_, attendance_->place());
    const RosterOptions roster{.store = &*place_,
                               .group = options.name,
                               .rank = rank,
                               .size = options.launch.world_size,
                               .timeout = options.timeout,
                               .all_announced = true,
                               .check_absent = [this](int other) { check_absent(other); }};
    announce(roster, deadline);
    all_announced_ = true;
    key_ = JobKey::from_environment();
    if (key_) return;
    // Only the job's user can write to the directory (FileStore), so it protects the key like a key
    // file.
    if (rank == 0) place_->set("key", JobKey::generate().hex(), deadline);
    key_ = JobKey::from_hex(await_value(roster, this_process(rank, {}), "key", 0, deadline));
  }

  // The last rank to leave removes everything. If a rank was killed, the next run refuses its
  // remains.
  void leave() noexcept {
    if (std::exchange(has_left_, true)) return;
    if (attendance_) attendance_->leave();
    try {
      const Deadline soon = Deadline::after(has_joined_ ? kTimeToLeave : kTimeToGiveUp);
      if (store_.add(kInside, -1, soon) == 0) store_.remove_if(kInside, "0", soon);
    } catch (const std::exception& error) {
      log::warning("leaving the other ranks: {}", error.what());
    }
  }

  rendezvous::FileStore store_;
  PrefixStore generation_;
  std::optional<Attendance> attendance_;
  std::optional<PrefixStore> place_;
  bool has_joined_ = false;
  bool has_left_ = false;
  std::optional<AtExit> at_exit_;  // runs after the groups' handlers, which are newer
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
  if (options.launch.rank == 0) {
    return std::make_unique<HostedMeeting>(options, endpoint, key, deadline);
  }
  return std::make_unique<RemoteMeeting>(options, endpoint, key, deadline);
}

// On one node dlrun listens on loopback, which a container with a network of its own does not
// reach: no connection would ever be made.
void check_network(const Endpoint& store, Deadline deadline) {
  const auto of_dlrun = env::get(env::Var::kNetwork);
  if (!of_dlrun || *of_dlrun == network_namespace()) return;
  for (const rendezvous::Address& address : rendezvous::resolve(store, deadline)) {
    DL_CHECK(!address.is_loopback(), kConnection,
             "init: this rank is in another network namespace than its dlrun, which listens on {} "
             "alone; give the rank's container the host's network (--network host)",
             store.text());
  }
}

std::unique_ptr<Meeting> meet_by_environment(const MeetingOptions& options, Deadline deadline) {
  if (const auto text = env::get(env::Var::kStore)) {
    const Endpoint store = Endpoint::parse(*text);
    check_network(store, deadline);
    return std::make_unique<RemoteMeeting>(options, store, JobKey::require_from_environment(),
                                           deadline);
  }
  const auto host = env::get(env::Var::kMasterAddr);
  const auto port = env::get_int(env::Var::kMasterPort);
  DL_CHECK(host && port, kInvalidArgument,
           "rank {} of {} (set by {}) does not know where the others are: {} is not set; start the "
           "program with dlrun, or set MASTER_ADDR and MASTER_PORT to where rank 0 may listen",
           options.launch.rank, options.launch.world_size, options.launch.told_by,
           host ? "MASTER_PORT" : "MASTER_ADDR");
  DL_CHECK(*port > 0 && *port < 65536, kInvalidArgument, "MASTER_PORT={} is not a port number",
           *port);
  DL_CHECK(
      env::get(env::Var::kTorchUseAgentStore) != "True", kInvalidArgument,
      "torchrun's own store has port {} (MASTER_PORT); start the ranks with dlrun, which takes "
      "torchrun's options, or set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for torchrun",
      *port);
  return meet_at(options, {.host = *host, .port = static_cast<std::uint16_t>(*port)}, deadline);
}

constexpr std::string_view kEnv = "env://", kTcp = "tcp://", kFile = "file://";

}  // namespace

void check_init_method(std::string_view method) {
  if (method == kEnv) return;
  if (method.starts_with(kTcp)) {
    static_cast<void>(Endpoint::parse(method.substr(kTcp.size())));
    return;
  }
  DL_CHECK(method.starts_with(kFile) && method.substr(kFile.size()).starts_with('/'),
           kInvalidArgument,
           "init method is '{}', wanted env://, tcp://host:port or file:///directory", method);
}

std::unique_ptr<Meeting> make_meeting(const MeetingOptions& options, Deadline deadline) {
  const std::string_view method = options.init_method;
  check_init_method(method);
  if (method == kEnv) return meet_by_environment(options, deadline);
  if (method.starts_with(kTcp)) {
    return meet_at(options, Endpoint::parse(method.substr(kTcp.size())), deadline);
  }
  return std::make_unique<FileMeeting>(options, std::string(method.substr(kFile.size())), deadline);
}

}  // namespace dl::collectives
