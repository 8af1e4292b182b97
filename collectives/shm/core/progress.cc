// Core's progress thread: reads the sockets, notices peers that are gone, answers for this rank,
// and drives operations for which no thread waits.
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "collectives/shm/core/core.h"
#include "core/base/log/log.h"
#include "core/base/system/machine/cpus.h"
#include "rendezvous/net/socket/local_socket.h"

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
  const std::size_t processes = 2 + peers_.size();
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
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (entries[i + 2].revents != 0) read_notes(peers_[i]);
      // Checked in addition to the socket, which a forked child may keep open.
      if (entries[i + processes].revents != 0) note_gone(peers_[i]);
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
  if (has_operations() || (is_poisoned() && !is_closed())) {
    fail({.kind = ErrorKind::kAborted,
          .text = fmt::format("{} destroyed group '{}' while an operation was under way",
                              peer(rank_).who.text(), name())});
  } else {
    const std::lock_guard lock(error_mutex_);
    if (!error_) own().presence.store(Presence::kLeft, std::memory_order_release);
  }
  stopping_.store(true);
  wake_thread();
  ring(own().bell);
  thread_.join();
  while (!take_role()) ::sched_yield();
  parent_only_.clear();
  // Peers that wait for this rank check it when the sockets close.
  for (Peer& p : peers_) p.socket.reset();
  give_role_back();
  release_finished();
}

void Core::warn_of_unfinished() {
  if (!front_ && under_way_.empty()) return;
  const Pending& first = under_way_.empty() ? static_cast<Pending&>(*front_) : *under_way_.front();
  const int count = waiting_.load() + messages_waiting_.load();
  log::warning("{}", unfinished_text(identity(rank_).text(), name(), first.descriptor,
                                     missing(first).text, static_cast<std::size_t>(count)));
}

void Core::leave_at_exit() {
  const auto begin = Clock::now();
  auto last_move = begin;
  for (;;) {
    if (!has_operations() || is_closed()) {
      // No call can come between this look and the goodbye.
      const std::lock_guard lock(submit_mutex_);
      has_left_ = !has_operations() || is_closed();
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
      if (gives_up && has_operations() && !is_closed()) warn_of_unfinished();
      give_role_back();
    }
    if (gives_up) return;  // a peer will miss it
  }
  const std::lock_guard lock(error_mutex_);
  if (!error_) own().presence.store(Presence::kLeft, std::memory_order_release);
}

void Core::read_notes(Peer& p) {
  for (;;) {
    Note note;
    rendezvous::Received received =
        rendezvous::receive_passing(p.socket.get(), std::as_writable_bytes(std::span(&note, 1)));
    if (received.ended) {
      p.is_gone.store(true, std::memory_order_release);
      ring(own().bell);
      return;
    }
    if (received.lost_passed) {
      fail({.kind = ErrorKind::kIo, .text = text_of_lost_descriptor(name(), p.who)});
      return;
    }
    if (received.bytes != sizeof note) return;
    if (note.kind == Note::Kind::kProbe) send_note(p, Note::Kind::kReply);
    if (note.kind == Note::Kind::kReply) p.last_answer.store(Clock::now());
    if (note.kind == Note::Kind::kRing && received.passed) take_ring(p, std::move(received.passed));
    if (note.kind == Note::Kind::kMemory && received.passed) {
      const std::lock_guard lock(passed_mutex_);
      if (note.number <= dropped_until_) continue;
      passed_.push_back({p.who.rank, note.number, std::move(received.passed)});
      passed_on_.notify_all();
    }
  }
}

void Core::note_gone(Peer& p) {
  read_notes(p);
  if (p.is_gone.load(std::memory_order_relaxed)) return;
  p.is_socket_held.store(true, std::memory_order_relaxed);
  p.is_gone.store(true, std::memory_order_release);
  ring(own().bell);
}

// Maps the ring for messages from this peer.
void Core::take_ring(Peer& p, UniqueFd fd) {
  if (p.line.has_in_segment.load(std::memory_order_relaxed)) return;
  try {
    p.line.in_segment = Segment::map(std::move(fd), kRingSegmentBytes);
    p.line.has_in_segment.store(true, std::memory_order_release);
    ring(own().bell);
  } catch (const Error& error) {
    fail({.kind = error.kind(),
          .text =
              fmt::format("group '{}': messages of {}: {}", name(), p.who.text(), error.what())});
  }
}

void Core::send_note(Peer& p, Note::Kind kind) noexcept {
  const Note note{.kind = kind};
  // A peer that is gone, or was stopped so long that its buffer is full, needs no note.
  rendezvous::send_passing(p.socket.get(), std::as_bytes(std::span(&note, 1)));
}

void Core::pass_memory(std::uint32_t number, int fd) {
  throw_if_broken();
  const Note note{.kind = Note::Kind::kMemory, .number = number};
  for (const Peer& p : peers_) {
    DL_CHECK(!p.socket ||
                 rendezvous::send_passing(p.socket.get(), std::as_bytes(std::span(&note, 1)), fd),
             kConnection, "group '{}': cannot pass a descriptor to {}: {}", name(), p.who.text(),
             std::strerror(errno));
  }
}

std::vector<UniqueFd> Core::take_memory(std::uint32_t number, Deadline deadline) {
  std::vector<UniqueFd> parts(peers_.size());
  std::unique_lock lock(passed_mutex_);
  const bool are_here = wait_until(passed_on_, lock, deadline, [&] {
    return std::ranges::count(passed_, number, &Passed::number) == size() - 1;
  });
  DL_CHECK(are_here, kTimeout, "group '{}': a symmetric memory did not come in time", name());
  for (Passed& part : passed_) {
    if (part.number == number) parts[static_cast<std::size_t>(part.rank)] = std::move(part.fd);
  }
  lock.unlock();
  drop_memory(number);
  return parts;
}

void Core::drop_memory(std::uint32_t number) noexcept {
  const std::lock_guard lock(passed_mutex_);
  dropped_until_ = std::max(dropped_until_, number);
  std::erase_if(passed_, [&](const Passed& part) { return part.number <= dropped_until_; });
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
