#include "rendezvous/grpc/grpc_store.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel_posix.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "rendezvous/grpc/grpc_support.h"
#include "rendezvous/net/connect/connect.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/rendezvous.grpc.pb.h"
#include "rendezvous/stores/store_checks.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;
using namespace std::chrono_literals;
using Stub = pb::Store::Stub;

// Shorter than the first warning (kWarnAfter), so that warnings are logged here.
constexpr auto kConnectTurn = 4s;
// Time to ask for the missing keys, after the deadline has passed.
constexpr auto kTimeToAsk = 5s;

std::uint64_t fresh_client_number() {
  const Nonce nonce = fresh_nonce();
  std::uint64_t number = 0;
  std::memcpy(&number, nonce.data(), sizeof number);
  return number;
}

void set_deadline(grpc::ClientContext& context, Deadline deadline) {
  if (deadline.is_never()) return;
  // gRPC takes a wall-clock time. Compute it last, so that the remaining time is right.
  context.set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(deadline.left()));
}

}  // namespace

class GrpcStore::Client {
 public:
  Client(GrpcStoreOptions options, Deadline deadline);
  ~Client() {
    if (link_) grpc_.keep(std::move(link_));
  }

  template <typename Request, typename Reply>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Reply*);

  // Makes the call, on a new connection if the current one is lost. `what` is for texts. The
  // service must answer by `turn`, and all attempts end by `deadline`.
  template <typename Request, typename Reply>
  Reply call(const std::string& what, Method<Request, Reply> method, const Request& request,
             Deadline turn, Deadline deadline);
  template <typename Request, typename Reply>
  Reply call(const std::string& what, Method<Request, Reply> method, const Request& request,
             Deadline deadline) {
    return call(what, method, request, deadline, deadline);
  }

  // call() for a request that changes something.
  template <typename Request, typename Reply>
  Reply change(const std::string& what, Method<Request, Reply> method, Request request,
               Deadline deadline);

  // call() for a request that waits in the service. After `warn_after`, and at the deadline,
  // `describe` returns what is missing; its argument is the deadline for finding that out.
  template <typename Request, typename Reply, typename Describe>
  Reply wait(const std::string& what, Method<Request, Reply> method, const Request& request,
             Deadline deadline, const Describe& describe);

  std::vector<std::string> missing(std::span<const std::string> keys, Deadline deadline);
  void close(std::string_view reason) noexcept;

 private:
  // A connection and gRPC's stub for it. Calls under way share it. A call may still return from a
  // Link that another call has already replaced.
  using Link = Stub;

  std::shared_ptr<Link> link(const std::string& what, Deadline deadline, const std::string& lost);
  std::shared_ptr<Link> connect(Deadline deadline);
  grpc::Status run(const std::function<grpc::Status(grpc::ClientContext*)>& call,
                   Deadline deadline);
  void drop(const std::shared_ptr<Link>& link);
  void check_open();

  GrpcUse grpc_;
  GrpcStoreOptions options_;
  std::uint64_t number_ = fresh_client_number();
  Mutex mutex_;
  std::condition_variable changed_;  // link_, connecting_, closed_
  std::shared_ptr<Link> link_ DL_GUARDED_BY(mutex_);
  bool connecting_ DL_GUARDED_BY(mutex_) =
      false;                       // one call makes the connection, the others wait for it
  std::uint64_t incarnation_ = 0;  // of the call that makes the connection
  std::optional<std::string> closed_ DL_GUARDED_BY(mutex_);
  std::set<grpc::ClientContext*> contexts_ DL_GUARDED_BY(mutex_);
  // A pipe. close() closes other_end_, which ends a call that is making a connection.
  UniqueFd pipe_end_;
  UniqueFd other_end_;
  std::uint64_t next_sequence_ = 1;
  std::set<std::uint64_t> under_way_;
};

GrpcStore::Client::Client(GrpcStoreOptions options, Deadline deadline)
    : options_(std::move(options)) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "store: make a pipe");
  pipe_end_.reset(ends[0]);
  other_end_.reset(ends[1]);
  options_.hello.purpose = kStorePurpose;
  link_ = connect(deadline);
}

void GrpcStore::Client::check_open() {
  const Lock lock(mutex_);
  if (closed_) throw_error(ErrorKind::kAborted, "store: closed: {}", *closed_);
}

// Registers the context while the call runs, so that close() can cancel it.
grpc::Status GrpcStore::Client::run(const std::function<grpc::Status(grpc::ClientContext*)>& call,
                                    Deadline deadline) {
  grpc::ClientContext context;
  set_deadline(context, deadline);
  {
    const Lock lock(mutex_);
    if (closed_) throw_error(ErrorKind::kAborted, "store: closed: {}", *closed_);
    contexts_.insert(&context);
  }
  const grpc::Status status = call(&context);
  const Lock lock(mutex_);
  contexts_.erase(&context);
  return status;
}

std::shared_ptr<GrpcStore::Client::Link> GrpcStore::Client::connect(Deadline deadline) {
  Patience patience(options_.warn_after);
  for (;;) {
    check_open();
    try {
      const Deadline turn = patience.until(Deadline::after(kConnectTurn));
      Connection connection = connect_and_prove(options_.endpoint, options_.hello, options_.key,
                                                Deadline::earlier(deadline, turn),
                                                {.hangup_fd = pipe_end_.get(),
                                                 .is_turn = turn.left() < deadline.left(),
                                                 .goal = "the job's store"});
      std::shared_ptr<Link> link = pb::Store::NewStub(grpc::CreateCustomInsecureChannelFromFd(
          "dlrun-store", connection.fd.release(), channel_arguments()));
      pb::OpenReply reply;
      const grpc::Status status = run(
          [&](grpc::ClientContext* context) { return link->Open(context, {}, &reply); }, deadline);
      if (status.ok()) {
        DL_CHECK(incarnation_ == 0 || incarnation_ == reply.incarnation(), kConnection,
                 "store: the service at {} was started anew and has lost the job's keys",
                 options_.endpoint.text());
        incarnation_ = reply.incarnation();
        return link;
      }
      check_open();
      log::debug("grpc: {}", status.error_message());
      DL_CHECK(!deadline.has_passed(), kTimeout,
               "store: {} let this process in and does not answer", options_.endpoint.text());
    } catch (const Error& error) {
      check_open();
      if (error.kind() != ErrorKind::kTimeout || deadline.has_passed()) throw;
      if (patience.should_warn()) {
        log::warning("store: still trying after {} s: {}", patience.waited().count(), error.what());
      }
    }
  }
}

std::shared_ptr<GrpcStore::Client::Link> GrpcStore::Client::link(const std::string& what,
                                                                 Deadline deadline,
                                                                 const std::string& lost) {
  const auto connection = [&] {
    return fmt::format("store: {}: the connection to {} was lost{}{}", what,
                       options_.endpoint.text(), lost.empty() ? "" : ", ", lost);
  };
  {
    Lock lock(mutex_);
    const auto settled = [&]() DL_REQUIRES(mutex_) { return closed_ || link_ || !connecting_; };
    const bool in_time = wait_until(changed_, lock.native(), deadline, settled);
    if (closed_) throw_error(ErrorKind::kAborted, "store: closed: {}", *closed_);
    if (link_) return link_;
    DL_CHECK(in_time, kTimeout, "{} and was not made again by the deadline", connection());
    connecting_ = true;
  }
  std::shared_ptr<Link> made;
  const auto settle = [&] {
    const Lock lock(mutex_);
    link_ = made;
    connecting_ = false;
    changed_.notify_all();
  };
  try {
    made = connect(Deadline::earlier(deadline, Deadline::after(options_.reconnect_for)));
  } catch (const Error& error) {
    settle();
    // If a server at this address refuses this client now, the client's own store is gone.
    if (error.kind() == ErrorKind::kAborted) throw;
    throw_error(ErrorKind::kConnection, "{} and could not be made again: {}", connection(),
                error.what());
  } catch (...) {
    settle();
    throw;
  }
  settle();
  return made;
}

void GrpcStore::Client::drop(const std::shared_ptr<Link>& link) {
  const Lock lock(mutex_);
  if (link_ == link) link_.reset();
}

template <typename Request, typename Reply>
Reply GrpcStore::Client::call(const std::string& what, Method<Request, Reply> method,
                              const Request& request, Deadline turn, Deadline deadline) {
  const auto start = Deadline::Clock::now();
  std::string lost;
  for (;;) {
    check_open();
    const std::shared_ptr<Link> on = link(what, deadline, lost);
    Reply reply;
    const grpc::Status status = run(
        [&](grpc::ClientContext* context) { return (on.get()->*method)(context, request, &reply); },
        turn);
    if (status.ok()) return reply;
    check_open();
    const ErrorKind kind = kind_of(status);
    if (kind == ErrorKind::kTimeout) {
      // gRPC's clock runs on while this process is stopped, so its deadline may come before ours.
      if (!turn.has_passed()) continue;
      const std::chrono::duration<double> waited = Deadline::Clock::now() - start;
      throw_error(kind, "store: {}: no answer from {} within {:.1f} s", what,
                  options_.endpoint.text(), waited.count());
    }
    if (kind != ErrorKind::kConnection) throw Error(kind, status.error_message());
    log::debug("grpc: {}", status.error_message());
    lost = "closed or reset";
    drop(on);
  }
}

template <typename Request, typename Reply>
Reply GrpcStore::Client::change(const std::string& what, Method<Request, Reply> method,
                                Request request, Deadline deadline) {
  std::uint64_t sequence = 0;
  {
    const Lock lock(mutex_);
    sequence = next_sequence_++;
    under_way_.insert(sequence);
    request.mutable_id()->set_oldest(*under_way_.begin());
  }
  request.mutable_id()->set_client(number_);
  request.mutable_id()->set_sequence(sequence);
  if (options_.hello.generation != kAnyGeneration) {
    request.mutable_id()->set_fence(options_.hello.generation + 1);
  }
  const auto is_over = [&] {
    const Lock lock(mutex_);
    under_way_.erase(sequence);
  };
  try {
    Reply reply = call(what, method, request, deadline);
    is_over();
    return reply;
  } catch (...) {
    is_over();
    throw;
  }
}

template <typename Request, typename Reply, typename Describe>
Reply GrpcStore::Client::wait(const std::string& what, Method<Request, Reply> method,
                              const Request& request, Deadline deadline, const Describe& describe) {
  Patience patience(options_.warn_after);
  for (;;) {
    const Deadline until = patience.until(deadline);
    try {
      return call(what, method, request, until, deadline);
    } catch (const Error& error) {
      // gRPC uses another clock, so its timeout may come before `until` has passed.
      if (error.kind() != ErrorKind::kTimeout) throw;
    }
    const bool late = deadline.has_passed();
    if (!late && !patience.should_warn()) continue;
    // A service that is slow to answer must not end a wait that has time left.
    const std::string text = describe(late ? Deadline::after(kTimeToAsk) : deadline);
    if (late) throw Error(ErrorKind::kTimeout, text);
    log::warning("{}", text);
  }
}

std::vector<std::string> GrpcStore::Client::missing(std::span<const std::string> keys,
                                                    Deadline deadline) {
  pb::KeysRequest request;
  for (const std::string& key : keys) request.add_keys(key);
  const pb::MissingReply reply =
      call("wait", Method<pb::KeysRequest, pb::MissingReply>(&Stub::Missing), request, deadline);
  return {reply.keys().begin(), reply.keys().end()};
}

void GrpcStore::Client::close(std::string_view reason) noexcept {
  const Lock lock(mutex_);
  if (closed_) return;
  closed_ = reason;
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
  other_end_.reset();
  changed_.notify_all();
}

GrpcStore::GrpcStore(GrpcStoreOptions options, Deadline deadline)
    : client_(std::make_unique<Client>(std::move(options), deadline)) {}

GrpcStore::~GrpcStore() = default;

void GrpcStore::set(std::string_view key, std::string_view value, Deadline deadline) {
  check_key("set", key);
  check_value("set", key, value);
  pb::SetRequest request;
  request.set_key(std::string(key));
  request.set_value(std::string(value));
  client_->change<pb::SetRequest, pb::SetReply>(fmt::format("set '{}'", key), &Stub::Set,
                                                std::move(request), deadline);
}

std::string GrpcStore::get(std::string_view key, Deadline deadline) {
  check_key("get", key);
  pb::GetRequest request;
  request.set_key(std::string(key));
  const auto start = Deadline::Clock::now();
  const std::vector<std::string> keys{std::string(key)};
  pb::GetReply reply = client_->wait<pb::GetRequest, pb::GetReply>(
      fmt::format("get '{}'", key), &Stub::Get, request, deadline,
      [&](Deadline) { return missing_text("get", keys, 1, start); });
  return std::move(*reply.mutable_value());
}

std::optional<std::string> GrpcStore::try_get(std::string_view key, Deadline deadline) {
  check_key("try_get", key);
  pb::GetRequest request;
  request.set_key(std::string(key));
  request.set_now(true);
  pb::GetReply reply = client_->call<pb::GetRequest, pb::GetReply>(fmt::format("try_get '{}'", key),
                                                                   &Stub::Get, request, deadline);
  if (!reply.has_value()) return std::nullopt;
  return std::move(*reply.mutable_value());
}

void GrpcStore::wait(std::span<const std::string> keys, Deadline deadline) {
  pb::KeysRequest request;
  for (const std::string& key : keys) {
    check_key("wait", key);
    request.add_keys(key);
  }
  const auto start = Deadline::Clock::now();
  client_->wait<pb::KeysRequest, pb::WaitReply>(
      "wait", &Stub::Wait, request, deadline, [&](Deadline by) {
        return missing_text("wait", client_->missing(keys, by), keys.size(), start);
      });
}

std::int64_t GrpcStore::add(std::string_view key, std::int64_t delta, Deadline deadline) {
  check_key("add", key);
  pb::AddRequest request;
  request.set_key(std::string(key));
  request.set_delta(delta);
  return client_
      ->change<pb::AddRequest, pb::AddReply>(fmt::format("add to '{}'", key), &Stub::Add,
                                             std::move(request), deadline)
      .sum();
}

Store::Swap GrpcStore::compare_and_set(std::string_view key,
                                       const std::optional<std::string>& expected,
                                       std::string_view desired, Deadline deadline) {
  check_key("compare_and_set", key);
  check_value("compare_and_set", key, desired);
  pb::CompareAndSetRequest request;
  request.set_key(std::string(key));
  if (expected) request.set_expected(*expected);
  request.set_desired(std::string(desired));
  pb::CompareAndSetReply reply = client_->change<pb::CompareAndSetRequest, pb::CompareAndSetReply>(
      fmt::format("compare_and_set '{}'", key), &Stub::CompareAndSet, std::move(request), deadline);
  Swap swap{.swapped = reply.swapped(), .present = std::nullopt};
  if (reply.has_present()) swap.present = std::move(*reply.mutable_present());
  return swap;
}

void GrpcStore::close(std::string_view reason) noexcept {
  client_->close(reason);
}

}  // namespace dl::rendezvous
