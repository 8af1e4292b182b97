#include "collectives/shm/core/progress.h"

#include <pthread.h>

#include <csignal>
#include <utility>

#include "core/base/system/machine/cpus.h"
#include "core/base/system/machine/thread.h"

namespace dl::collectives::shm {
namespace {

using namespace std::chrono_literals;

// How often the thread reads the sockets while it drives.
constexpr auto kDriveTime = 10ms;

}  // namespace

void Progress::start() {
  thread_ = make_thread(fmt::format("group '{}'", peers_.group()), [this] { run(); });
}

void Progress::stop() {
  wakeup_.now();
  ring(peers_.own().bell);
  thread_.join();
}

void Progress::run() {
  ::pthread_setname_np(::pthread_self(), "dlrun-shm");
  use_all_bound_cpus();
  while (!callers_.is_stopping.load()) {
    poll();
    hear_of_failures();
    // Do not drive while a visitor waits: if it found the role taken at every try, it would wait
    // until the operation is over. A visitor wakes this thread when it leaves.
    if (!is_wanted()) continue;
    const Role::Held driver = role_.take();
    if (!driver) continue;
    drives_.store(true);
    driver->drive(nullptr, Deadline::after(kDriveTime));
    drives_.store(false);
  }
}

void Progress::poll() {
  entries_.assign({{wakeup_.event(), POLLIN, 0}, {wakeup_.timer(), POLLIN, 0}});
  const std::size_t processes = 2 + static_cast<std::size_t>(peers_.size());
  // poll() skips negative descriptors.
  for (const Peer& p : peers_) {
    const bool is_open = p.socket && !p.is_gone.load(std::memory_order_relaxed);
    entries_.push_back({is_open ? p.socket.get() : -1, POLLIN, 0});
  }
  for (const Peer& p : peers_) {
    const bool is_here = !p.is_gone.load(std::memory_order_relaxed);
    entries_.push_back({is_here ? p.process.get() : -1, POLLIN, 0});
  }
  // A thread that holds the role wakes this thread if it leaves work behind.
  const bool may_drive = is_wanted() && !role_.is_taken();
  ::poll(entries_.data(), entries_.size(), may_drive ? 0 : -1);
  if (entries_[0].revents != 0) wakeup_.clear_event();
  if (entries_[1].revents != 0) wakeup_.clear_timer();
  for (Peer& p : peers_) {
    const auto i = static_cast<std::size_t>(p.who.rank);
    if (entries_[i + 2].revents != 0) fail_if(peers_.read_notes(p));
    // Checked in addition to the socket, which a forked child may keep open.
    if (entries_[i + processes].revents != 0) fail_if(peers_.note_gone(p));
  }
}

// Read the sockets first: they may still hold rings that peers passed before one of them failed.
void Progress::hear_of_failures() {
  if (failure_.is_closed() || !failure_.has_peer_failed()) return;
  if (!failure_.is_broken()) {
    for (Peer& p : peers_) {
      if (p.socket && !p.is_gone.load(std::memory_order_relaxed)) fail_if(peers_.read_notes(p));
    }
  }
  if (failure_.adopt_peers_cause()) role_.end_if_broken();
}

void Progress::fail_if(std::optional<Cause> found) noexcept {
  if (!found) return;
  failure_.fail(*std::move(found));
  role_.end_if_broken();
}

}  // namespace dl::collectives::shm
