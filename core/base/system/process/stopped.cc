#include "core/base/system/process/stopped.h"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>
#include <type_traits>

#include "core/base/mutex.h"
#include "core/base/system/machine/thread.h"
#include "core/base/system/process/fork.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLookEvery = 250ms;
// Four missed looks. Shorter gaps come from the scheduler; no deadline notices them.
constexpr Clock::rep kStopGap = std::chrono::nanoseconds(1s).count();
// Looks by others that come sooner leave the shared word alone.
constexpr Clock::rep kFreshGap = std::chrono::nanoseconds(10ms).count();

static_assert(std::is_same_v<Clock::duration, std::chrono::nanoseconds>);

// All constant-initialised. `last_look` is 0 while no thread watches.
std::atomic<Clock::rep> last_look{0};
std::atomic<Clock::rep> stopped{0};
Mutex stop_mutex;
std::atomic<const ForkMark*> watching_process{nullptr};
decltype(&stopped_time) program_time = nullptr;

void run_looks() {
  for (;;) {
    std::this_thread::sleep_for(kLookEvery);
    stopped_time(Clock::now());
  }
}

}  // namespace

void use_stopped_time(decltype(&stopped_time) program) noexcept {
  program_time = program;
}

void watch_for_stops() {
  const Lock lock(stop_mutex);
  const ForkMark* const known = watching_process.load(std::memory_order_relaxed);
  if (known != nullptr && !known->is_in_child()) return;
  const auto* const mark = new ForkMark();
  try {
    // Detached: it holds nothing, and runs until the process ends.
    std::thread thread = make_thread("the watch for stops", &run_looks);
    ::pthread_setname_np(thread.native_handle(), "dlrun-clock");
    thread.detach();
  } catch (...) {
    delete mark;
    throw;
  }
  watching_process.store(mark, std::memory_order_relaxed);
  last_look.store(Clock::now().time_since_epoch().count(), std::memory_order_release);
}

std::chrono::nanoseconds stopped_time(Clock::time_point when) noexcept {
  const Clock::rep now = when.time_since_epoch().count();
  Clock::rep last = last_look.load(std::memory_order_acquire);
  if (last == 0) return program_time != nullptr ? program_time(when) : 0ns;
  if (now - last > kStopGap && !watching_process.load(std::memory_order_relaxed)->is_in_child()) {
    // Add to the sum first: a thread that sees the new look must also see the time it found.
    const Lock lock(stop_mutex);
    last = last_look.load(std::memory_order_relaxed);
    if (now - last > kStopGap) {
      stopped.fetch_add(now - last, std::memory_order_relaxed);
      last_look.store(now, std::memory_order_release);
    }
  } else if (now - last > kFreshGap) {
    last_look.compare_exchange_strong(last, now, std::memory_order_release,
                                      std::memory_order_relaxed);
  }
  return std::chrono::nanoseconds(stopped.load(std::memory_order_relaxed));
}

}  // namespace dl
