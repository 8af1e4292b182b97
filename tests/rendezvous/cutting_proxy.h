// A TCP relay that cuts all its connections on request: how a test breaks a network.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::tests {

class CuttingProxy {
 public:
  explicit CuttingProxy(rendezvous::Endpoint target) : target_(std::move(target)) {
    int ends[2];
    if (::pipe(ends) != 0) throw_errno(errno, "pipe");
    wake_read_.reset(ends[0]);
    wake_write_.reset(ends[1]);
    thread_ = std::thread([this] { run(); });
  }
  ~CuttingProxy() {
    stopping_ = true;
    wake();
    thread_.join();
  }
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  rendezvous::Endpoint endpoint() const { return {"127.0.0.1", listener_.port()}; }
  // Returns when all are cut. Called by one thread.
  void cut() {
    cut_ = true;
    wake();
    cut_.wait(true);
  }
  // Cuts all, and every new connection at once until mend().
  void break_down() {
    broken_ = true;
    cut();
  }
  void mend() { broken_ = false; }

 private:
  struct Pair {
    UniqueFd one;
    UniqueFd other;
  };

  void wake() { [[maybe_unused]] const ssize_t n = ::write(wake_write_.get(), "w", 1); }

  // True while both ends are there.
  static bool relay(int from, int to) {
    std::array<char, 65536> buffer;
    const ssize_t n = ::recv(from, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN;
    for (ssize_t done = 0; done < n;) {
      const ssize_t sent =
          ::send(to, buffer.data() + done, static_cast<std::size_t>(n - done), MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) {
        pollfd entry{.fd = to, .events = POLLOUT, .revents = 0};
        ::poll(&entry, 1, 1000);
      } else if (sent < 0) {
        return false;
      } else {
        done += sent;
      }
    }
    return n > 0;
  }

  void run() {
    std::list<Pair> pairs;
    while (!stopping_) {
      std::vector<pollfd> entries{{.fd = listener_.fd(), .events = POLLIN, .revents = 0},
                                  {.fd = wake_read_.get(), .events = POLLIN, .revents = 0}};
      for (const Pair& pair : pairs) {
        entries.push_back({.fd = pair.one.get(), .events = POLLIN, .revents = 0});
        entries.push_back({.fd = pair.other.get(), .events = POLLIN, .revents = 0});
      }
      ::poll(entries.data(), entries.size(), -1);
      if (entries[1].revents != 0) {
        char byte = 0;
        [[maybe_unused]] const ssize_t n = ::read(wake_read_.get(), &byte, 1);
      }
      if (cut_) {
        pairs.clear();
        cut_ = false;
        cut_.notify_all();
        continue;
      }
      std::erase_if(pairs, [](const Pair& pair) {
        return !relay(pair.one.get(), pair.other.get()) || !relay(pair.other.get(), pair.one.get());
      });
      while (auto accepted = listener_.accept()) {
        if (broken_) continue;
        try {
          UniqueFd other =
              rendezvous::connect_to(target_, detail::Deadline::after(std::chrono::seconds(5)));
          pairs.push_back({std::move(accepted->fd), std::move(other)});
        } catch (const Error&) {
          // The target is gone; so is this connection.
        }
      }
    }
  }

  rendezvous::Endpoint target_;
  rendezvous::Listener listener_ = rendezvous::Listener::bind({.host = "127.0.0.1"});
  UniqueFd wake_read_;
  UniqueFd wake_write_;
  std::atomic<bool> cut_{false};
  std::atomic<bool> broken_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace dl::tests
