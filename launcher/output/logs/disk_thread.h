// DiskThread: a thread that does all work on files under --log-dir, in order. So a disk that is
// slow or hangs delays only what waits for it.
//
// run() takes two functions. `work` runs on the thread; it owns all that it uses, because it may
// outlive this object. `done` runs in the event loop with the result of `work`. The first run()
// starts the thread.
//
// One thread, except for `work`. io_context must outlive the DiskThread. All that `done` uses must
// live as long as the event loop runs.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace dl::launcher {

class DiskThread {
 public:
  using Clock = std::chrono::steady_clock;

  explicit DiskThread(boost::asio::io_context& io);
  DiskThread(const DiskThread&) = delete;
  DiskThread& operator=(const DiskThread&) = delete;
  // Leaves the thread behind if it has work under way, because that may never end.
  ~DiskThread();

  template <typename Work, typename Done>
  void run(Work work, Done done) {
    using Result = decltype(work());
    auto result = std::make_shared<std::optional<Result>>();  // owned by both functions
    submit([result, work = std::move(work)]() mutable { *result = work(); },
           [result, done = std::move(done)]() mutable { done(std::move(**result)); });
  }

  bool is_idle() const { return unfinished_ == 0; }
  // Since when no work has finished; nullopt: there is no work.
  std::optional<Clock::time_point> waits_since() const;

 private:
  struct Shared;

  void submit(std::function<void()> work, std::function<void()> done);
  void start();
  void wait_for_finished();

  boost::asio::posix::stream_descriptor finished_;
  std::shared_ptr<Shared> shared_;  // shared with a thread that may outlive this object
  std::size_t unfinished_ = 0;
  Clock::time_point last_end_;
};

}  // namespace dl::launcher
