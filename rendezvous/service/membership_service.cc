#include "rendezvous/service/membership_service.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/base/system/machine/thread.h"
#include "rendezvous/grpc/grpc_support.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;

constexpr std::chrono::milliseconds kTick{250};

}  // namespace

// gRPC's threads call its reactions, which only queue events. The service's thread calls everything
// else.
class MembershipService::Stream final : public grpc::ServerBidiReactor<pb::FromNode, pb::ToNode> {
 public:
  Stream(MembershipService& service, Membership::NodeId node) : service_(service), node_(node) {}

  // Starts no operation on a stream that was told to end: gRPC forgets the stream with its last
  // reaction.
  void read() {
    if (finished_) return;
    hand_over(this);
    StartRead(&incoming_);
  }
  void send(pb::ToNode message) {
    if (ending_) return;
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }
  void on_written(bool ok) {
    outgoing_.pop_front();
    if (!ok) outgoing_.clear();
    if (!outgoing_.empty()) {
      StartWrite(&outgoing_.front());
    } else if (ending_) {
      finish();
    }
  }
  // Ends the stream once everything has been written.
  void end() {
    ending_ = true;
    if (outgoing_.empty()) finish();
  }

  void OnReadDone(bool ok) override {
    take_over(this);
    using Kind = Event::Kind;
    service_.post({.kind = ok ? Kind::kMessage : Kind::kLost,
                   .node = node_,
                   .message = ok ? std::move(incoming_) : pb::FromNode()});
  }
  void OnWriteDone(bool ok) override {
    take_over(this);
    service_.post({.kind = Event::Kind::kWritten, .node = node_, .ok = ok});
  }
  void OnCancel() override {
    take_over(this);
    service_.post({.kind = Event::Kind::kLost, .node = node_});
  }
  void OnDone() override { service_.post({.kind = Event::Kind::kDone, .node = node_}); }

 private:
  void finish() {
    if (!std::exchange(finished_, true)) Finish(grpc::Status::OK);
  }

  MembershipService& service_;
  Membership::NodeId node_;
  pb::FromNode incoming_;
  std::deque<pb::ToNode> outgoing_;  // the first one is being written
  bool ending_ = false;
  bool finished_ = false;
};

MembershipService::MembershipService(Membership::Options options, Events events)
    : on_(std::move(events)),
      membership_(options),
      thread_(make_thread("the membership's service", [this] { run(); })) {
  hand_over(this);
}

MembershipService::~MembershipService() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

grpc::ServerBidiReactor<pb::FromNode, pb::ToNode>* MembershipService::Join(
    grpc::CallbackServerContext*) {
  take_over(this);
  Stream* stream = nullptr;
  {
    const Lock lock(mutex_);
    const Membership::NodeId node = next_node_++;
    stream = streams_.emplace(node, std::make_unique<Stream>(*this, node)).first->second.get();
  }
  stream->read();
  return stream;
}

void MembershipService::wait_empty(Deadline deadline) {
  Lock lock(mutex_);
  left_.wait_until(lock.native(), deadline.when(),
                   [&]() DL_REQUIRES(mutex_) { return streams_.empty(); });
}

void MembershipService::post(Event event) {
  {
    const Lock lock(mutex_);
    events_.push_back(std::move(event));
  }
  posted_.notify_one();
}

void MembershipService::run() {
  auto next_tick = Deadline::Clock::now();
  for (;;) {
    std::deque<Event> events;
    {
      Lock lock(mutex_);
      posted_.wait_until(lock.native(), next_tick,
                         [&]() DL_REQUIRES(mutex_) { return stopping_ || !events_.empty(); });
      // The server has ended before the service does: no more events will be queued.
      if (stopping_ && events_.empty()) return;
      events = std::exchange(events_, {});
    }
    try {
      for (const Event& event : events) handle(event);
      if (const auto now = Deadline::Clock::now(); now >= next_tick) {
        next_tick = now + kTick;
        deliver(membership_.on_time(now));
        if (membership_.is_gathering()) on_.on_gathering();
      }
    } catch (const std::exception& error) {
      log::error("membership: {}", error.what());
    }
  }
}

void MembershipService::handle(const Event& event) {
  Stream* stream = nullptr;
  {
    const Lock lock(mutex_);
    const auto found = streams_.find(event.node);
    if (found == streams_.end()) return;
    stream = found->second.get();
    if (event.kind == Event::Kind::kDone) {
      streams_.erase(found);
      left_.notify_all();
      return;
    }
  }
  const auto now = Deadline::Clock::now();
  switch (event.kind) {
    case Event::Kind::kMessage:
      deliver(membership_.on_message(event.node, event.message, now));
      stream->read();
      break;
    case Event::Kind::kLost:
      deliver(membership_.on_lost(event.node, now));
      stream->end();
      break;
    case Event::Kind::kWritten:
      stream->on_written(event.ok);
      break;
    case Event::Kind::kDone:
      break;
  }
}

void MembershipService::deliver(Membership::Outbox outbox) {
  const auto begins = std::ranges::find_if(
      outbox, [](const Membership::Outgoing& out) { return out.message.has_generation(); });
  if (begins != outbox.end()) {
    on_.on_generation(static_cast<std::uint64_t>(begins->message.generation().number()));
  }
  for (Membership::Outgoing& outgoing : outbox) {
    Stream* stream = nullptr;
    {
      const Lock lock(mutex_);
      const auto found = streams_.find(outgoing.to);
      if (found == streams_.end()) continue;
      stream = found->second.get();
    }
    stream->send(std::move(outgoing.message));
    if (outgoing.last) stream->end();
  }
}

}  // namespace dl::rendezvous
