// The Membership service of rendezvous.proto. It connects the nodes' streams with the state machine
// Membership. Included by .cc files only.
//
// gRPC's threads only queue events. One thread takes them out, watches deadlines and makes every
// call on the streams, so that no lock is held during a call of gRPC. The service must outlive the
// server that runs it; its streams end with that server.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "core/base/mutex.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/rendezvous.grpc.pb.h"

namespace dl::rendezvous {

class MembershipService final : public dlrun::rendezvous::Membership::CallbackService {
 public:
  // Called on the service's thread.
  struct Events {
    // Called before the nodes hear of a new generation.
    std::function<void(std::uint64_t generation)> on_generation;
    // Called every quarter of a second while nodes may join.
    std::function<void()> on_gathering = [] {};
  };
  MembershipService(Membership::Options options, Events events);
  ~MembershipService() override;

  grpc::ServerBidiReactor<dlrun::rendezvous::FromNode, dlrun::rendezvous::ToNode>* Join(
      grpc::CallbackServerContext* context) override;

  // Waits until no node is left, at most until the deadline.
  void wait_empty(Deadline deadline);

 private:
  class Stream;
  struct Event {
    enum class Kind : std::uint8_t { kMessage, kLost, kWritten, kDone };
    Kind kind;
    Membership::NodeId node;
    bool ok = true;
    dlrun::rendezvous::FromNode message{};
  };

  void post(Event event);
  void run();
  void handle(const Event& event);
  void deliver(Membership::Outbox outbox);

  Mutex mutex_;
  std::condition_variable posted_;
  std::condition_variable left_;
  std::deque<Event> events_ DL_GUARDED_BY(mutex_);
  std::map<Membership::NodeId, std::unique_ptr<Stream>> streams_ DL_GUARDED_BY(mutex_);
  Membership::NodeId next_node_ DL_GUARDED_BY(mutex_) = 1;
  bool stopping_ DL_GUARDED_BY(mutex_) = false;

  Events on_;
  Membership membership_;  // the thread's
  std::thread thread_;
};

}  // namespace dl::rendezvous
