// Acceptor: accepts all connections of a process, authenticates each with the job key, and hands it
// to the handler of its purpose.
//
// An Acceptor owns its Listener and every unauthenticated connection. It keeps at most 64 of these
// plus one for each expected peer, each for 5 s. If there are more, the oldest is refused, and its
// client tries again (connect.h). Garbage, half-open connections and strangers are dropped and
// logged (a few lines every 10 s, then a count). They delay no other client.
//
// After start() it runs on a thread of its own. Alternatively it runs inside the owner's event
// loop: watch poll_fd() for reading, and call process() whenever it is readable, always from the
// same thread.
//
// Thread-safety: serve(), forget() and address() from any thread; start(), stop() or process() from
// the owner's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "rendezvous/net/handshake/handshake.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::rendezvous {

class Acceptor {
 public:
  // Receives an authenticated connection on the acceptor's thread; must not block. Exceptions are
  // logged, and the connection is closed.
  using Handler = std::function<void(Connection)>;

  // `self`: this side's job, generation, from and rank, which clients are told. `expected_peers`:
  // how many peers may connect at the same time.
  Acceptor(Listener listener, const JobKey& key, Hello self, std::size_t expected_peers = 0);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Gives `handler` the connections whose purpose is `purpose` or begins with `purpose` and a '/'.
  // If several purposes match, the longest wins. A client of another generation is refused, unless
  // `generation` is kAnyGeneration. Throws kInvalidArgument if the purpose is already served.
  void serve(const std::string& purpose, std::uint64_t generation, Handler handler);
  // After this returns, the handler does not run any more. Do not hold a lock that the handler
  // takes. Does nothing if the purpose is not served.
  void forget(const std::string& purpose) noexcept;

  // Creates the thread, which serves nothing before start(). So if the system refuses a thread, the
  // error comes before others depend on this acceptor. Throws kIo.
  void prepare();
  void start();
  // Ends the thread and every handshake that is under way; ~Acceptor() does it too. The clients'
  // connections end without a refusal, so the clients try again (connect.h).
  void stop() noexcept;
  // From now on another process can listen at the address, also if one that has got the listener's
  // descriptor, or passed it on, has yet to close its own copy. For good; start() is useless then.
  void give_up_address() noexcept;

  int poll_fd() const noexcept { return epoll_.get(); }
  void process();
  // Handles a connection that the owner has accepted, like one of the listener's.
  void adopt(Listener::Accepted accepted);

  const Address& address() const noexcept { return listener_.address(); }

 private:
  struct Pending;
  struct Route {
    std::string purpose;
    std::uint64_t generation;
    Handler handler;
  };

  void run();
  void accept_all();
  void begin(Listener::Accepted accepted);
  void drive(std::uint64_t id);
  void drive_or_drop(std::uint64_t id);
  void finish(std::uint64_t id);
  void drop(std::uint64_t id, const std::string& why);
  void expire();
  void arm_timer();
  void watch(int operation, int fd, std::uint32_t events, std::uint64_t id);
  void hand_over(Connection connection);
  Verdict judge(const Hello& peer);
  Route* find_route(const std::string& purpose);
  void log_drop(const std::string& line);

  const std::size_t most_pending_;
  Listener listener_;
  JobKey key_;
  Hello self_;
  UniqueFd epoll_;
  UniqueFd timer_;
  UniqueFd wake_;
  // By age: ids grow, and all have the same time for authentication.
  std::map<std::uint64_t, std::unique_ptr<Pending>> pending_;
  std::uint64_t next_id_;
  bool listening_ = true;
  Deadline resume_ = Deadline::never();

  // Recursive, because a handler may call serve() or forget(). It is held while a handler runs, so
  // that forget() waits for the handler.
  std::recursive_mutex routes_mutex_;
  std::vector<Route> routes_;

  Deadline log_window_ = Deadline::after(std::chrono::seconds(0));
  int logged_ = 0;
  std::uint64_t not_logged_ = 0;

  std::atomic<bool> started_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace dl::rendezvous
