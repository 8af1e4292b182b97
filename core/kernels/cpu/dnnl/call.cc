#include "core/kernels/cpu/dnnl/call.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "core/base/error.h"
#include "core/base/exit_watch.h"
#include "core/base/fork.h"

namespace dl::kernels {
namespace {

constexpr std::chrono::seconds kLongestCall{10};

// Made once and never destroyed.
struct Calls {
  ExitWatch exit;
  ForkMark process;
  std::atomic<int> under_way{0};
  std::mutex mutex;
  std::condition_variable is_over;
};

Calls& calls() {
  static Calls& made = *new Calls();
  return made;
}

constinit thread_local int depth = 0;

void wait_for_calls() noexcept {
  Calls& c = calls();
  // A forked child has none of the threads that were in a call.
  if (c.process.is_in_child() || c.exit.has_begun()) return;
  c.exit.begin();
  {
    std::unique_lock lock(c.mutex);
    // A signal handler may have called exit() in the middle of a call.
    c.is_over.wait_for(lock, kLongestCall, [&] { return c.under_way.load() <= depth; });
  }
  c.exit.end();
}

void end_call(Calls& c) noexcept {
  c.under_way.fetch_sub(1);
  if (!c.exit.has_begun()) return;
  const std::lock_guard lock(c.mutex);
  c.is_over.notify_all();
}

}  // namespace

DnnlCall::DnnlCall() {
  Calls& c = calls();
  c.under_way.fetch_add(1);
  if (c.exit.has_begun() && !c.exit.is_exiting_thread() && !c.process.is_in_child()) {
    end_call(c);
    c.exit.stay();
    throw_error(ErrorKind::kAborted, "another thread has called exit(): nothing is computed");
  }
  ++depth;
}

DnnlCall::~DnnlCall() {
  --depth;
  end_call(calls());
}

void DnnlCall::guard_new_code() noexcept {
  // Without memory for one more handler, the ones before protect what they can.
  (void)std::atexit([] { wait_for_calls(); });
}

}  // namespace dl::kernels
