// Core's progress thread: reads the sockets, notices peers that are gone, answers for this rank,
// and drives operations for which no thread waits.
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <csignal>

#include "collectives/shm/core/core.h"
#include "core/base/log/log.h"
#include "core/base/system/machine/cpus.h"

namespace dl::collectives::shm {
namespace {

using namespace std::chrono_literals;

// How late the thread takes up an operation for which no thread waits, if callers usually wait for
// theirs.
constexpr long kTakeUpNanoseconds = 1'000'000;
// How often it reads the sockets while it drives.
constexpr auto kDriveTime = 10ms;
constexpr auto kExitNap = 1ms;

}  // namespace

void Core::run() {
  // Signals belong to the program's threads.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "dlrun-shm");
  use_all_bound_cpus();
  std::vector<pollfd> entries;
  const std::size_t processes = 2 + static_cast<std::size_t>(size());
  while (!stopping_.load()) {
    entries.assign({{event_.get(), POLLIN, 0}, {timer_.get(), POLLIN, 0}});
    for (const Peer& p : peers_) {
      // poll() skips negative descriptors.
      const bool is_open = p.socket && !p.is_gone.load(std::memory_order_relaxed);
      entries.push_back({is_open ? p.socket.get() : -1, POLLIN, 0});
    }
    for (const Peer& p : peers_) {
      const bool is_here = !p.is_gone.load(std::memory_order_relaxed);
      entries.push_back({is_here ? p.process.get() : -1, POLLIN, 0});
    }
    // A thread that holds the role wakes this thread if it leaves work behind.
    const bool may_drive =
        has_operations() && helpers_.load() == 0 && visitors_.load() == 0 && !driving_.load();
    ::poll(entries.data(), entries.size(), may_drive ? 0 : -1);
    std::uint64_t count = 0;
    if (entries[0].revents != 0) {
      [[maybe_unused]] const ssize_t size = ::read(event_.get(), &count, sizeof count);
    }
    if (entries[1].revents != 0) {
      [[maybe_unused]] const ssize_t size = ::read(timer_.get(), &count, sizeof count);
      timer_is_armed_.store(false);
    }
    for (Peer& p : peers_) {
      const auto i = static_cast<std::size_t>(p.who.rank);
      if (entries[i + 2].revents != 0) fail_if(peers_.read_notes(p));
      // Checked in addition to the socket, which a forked child may keep open.
      if (entries[i + processes].revents != 0) fail_if(peers_.note_gone(p));
    }
    hear_of_failures();
    // Do not drive while a visitor waits: if it found the role taken at every try, it would wait
    // until the operation is over. A visitor wakes this thread when it leaves.
    if (!has_operations() || helpers_.load() > 0 || visitors_.load() > 0 || !take_role()) continue;
    thread_drives_.store(true);
    drive(nullptr, Deadline::after(kDriveTime));
    thread_drives_.store(false);
    give_role_back();
  }
}

void Core::stop() noexcept {
  if (is_in_child()) {
    // The progress thread does not exist in the child, and the child must not say goodbye to the
    // peers: change nothing.
    retain();
    return;
  }
  if (at_exit_.has_left()) {
    AtExit::keep(Ref<Core>(this));
    return;
  }
  if (has_operations() && take_role()) {
    while (step()) {
    }
    give_role_back();
  }
  if (has_operations() || (failure_.is_poisoned() && !failure_.is_closed())) {
    fail({.kind = ErrorKind::kAborted,
          .text = fmt::format("{} destroyed group '{}' while an operation was under way",
                              peers_[rank()].who.text(), name())});
  } else {
    failure_.leave();
  }
  stopping_.store(true);
  wake_thread();
  ring(peers_.own().bell);
  thread_.join();
  while (!take_role()) ::sched_yield();
  parent_only_.clear();
  peers_.close();
  give_role_back();
  release_finished();
}

void Core::warn_of_unfinished() {
  if (!front_ && under_way_.empty()) return;
  const Pending& first = under_way_.empty() ? static_cast<Pending&>(*front_) : *under_way_.front();
  const int count = waiting_.load() + messages_waiting_.load();
  log::warning("{}", unfinished_text(peers_.self().text(), name(), first.descriptor,
                                     missing(first).text, static_cast<std::size_t>(count)));
}

void Core::leave_at_exit() {
  const auto begin = Clock::now();
  auto last_move = begin;
  for (;;) {
    if (!has_operations() || failure_.is_closed()) {
      // No call can come between this look and the goodbye.
      const std::lock_guard lock(submit_mutex_);
      has_left_ = !has_operations() || failure_.is_closed();
      if (has_left_) break;
    }
    const bool drives = take_role();
    if (drives) {
      if (step() || sleep(kExitNap)) last_move = Clock::now();
    } else {
      ::sched_yield();
    }
    const auto now = Clock::now();
    const bool gives_up = now - last_move > kExitQuiet || now - begin > kExitTime;
    if (drives) {
      if (gives_up && has_operations() && !failure_.is_closed()) warn_of_unfinished();
      give_role_back();
    }
    if (gives_up) return;  // a peer will miss it
  }
  failure_.leave();
}

void Core::pass_memory(std::uint32_t number, int fd) {
  throw_if_broken();
  peers_.pass_memory(number, fd);
}

void Core::wake_thread() noexcept {
  ::eventfd_write(event_.get(), 1);
}

void Core::arm_timer() noexcept {
  // Sequentially consistent with the thread, which disarms the timer and then looks for operations.
  if (timer_is_armed_.load() || timer_is_armed_.exchange(true)) return;
  const itimerspec once{.it_interval = {},
                        .it_value = {.tv_sec = 0, .tv_nsec = kTakeUpNanoseconds}};
  ::timerfd_settime(timer_.get(), 0, &once, nullptr);
}

}  // namespace dl::collectives::shm
