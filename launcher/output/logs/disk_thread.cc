#include "launcher/output/logs/disk_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <thread>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/system/machine/thread.h"
#include "core/base/system/unique_fd.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher {

struct DiskThread::Shared {
  struct Task {
    std::function<void()> work;
    std::function<void()> done;
  };

  Mutex mutex;
  std::condition_variable changed;
  std::deque<Task> todo DL_GUARDED_BY(mutex);
  std::deque<std::function<void()>> finished DL_GUARDED_BY(mutex);
  bool over DL_GUARDED_BY(mutex) = false;
  UniqueFd event;  // readable: something is finished

  void work() {
    Lock lock(mutex);
    while (true) {
      changed.wait(lock.native(), [this]() DL_REQUIRES(mutex) { return over || !todo.empty(); });
      if (over) return;
      Task task = std::move(todo.front());
      todo.pop_front();
      lock.unlock();
      task.work();
      task.work = nullptr;
      lock.lock();
      if (over) return;
      finished.push_back(std::move(task.done));
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t n = ::write(event.get(), &one, sizeof one);
    }
  }
};

DiskThread::DiskThread(boost::asio::io_context& io) : finished_(io) {}

DiskThread::~DiskThread() {
  if (!shared_) return;
  const Lock lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.notify_one();
}

void DiskThread::submit(std::function<void()> work, std::function<void()> done) {
  if (!shared_) start();
  if (unfinished_++ == 0) last_end_ = Clock::now();
  const Lock lock(shared_->mutex);
  shared_->todo.push_back({std::move(work), std::move(done)});
  shared_->changed.notify_one();
}

void DiskThread::start() {
  const auto shared = std::make_shared<Shared>();
  shared->event.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared->event) throw_errno(errno, "eventfd for the log files");
  // The watched descriptor is closed with the event loop, the other one with the thread.
  UniqueFd watched = duplicate(shared->event.get());
  // Signals are blocked in this thread, so also in the new one (job_signals.h).
  make_thread("the log files", [shared] { shared->work(); }).detach();
  shared_ = shared;
  finished_.assign(watched.release());
  wait_for_finished();
}

void DiskThread::wait_for_finished() {
  finished_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (error) return;
                         std::uint64_t count = 0;
                         [[maybe_unused]] const ssize_t n =
                             ::read(shared_->event.get(), &count, sizeof count);
                         std::deque<std::function<void()>> finished;
                         {
                           const Lock lock(shared_->mutex);
                           finished.swap(shared_->finished);
                         }
                         wait_for_finished();
                         for (const auto& done : finished) {
                           --unfinished_;
                           last_end_ = Clock::now();
                           done();
                         }
                       });
}

std::optional<DiskThread::Clock::time_point> DiskThread::waits_since() const {
  if (is_idle()) return std::nullopt;
  return last_end_;
}

}  // namespace dl::launcher
