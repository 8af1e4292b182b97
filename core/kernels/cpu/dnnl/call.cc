#include "core/kernels/cpu/dnnl/call.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/system/process/exit_watch.h"
#include "core/base/system/process/fork.h"

namespace dl::kernels {
namespace {

constexpr std::chrono::seconds kLongestCall{10};

constinit thread_local int depth_of_calls = 0;

}  // namespace

// The running calls of one process. Never destroyed.
struct DnnlCall::Calls {
  explicit Calls(const Calls* of_parent) : parent(of_parent) {}
  const Calls* parent;  // of the process that forked this one
  ExitWatch exit;
  ForkMark process;
  std::atomic<int> under_way{0};
  Mutex mutex;
  std::condition_variable is_over;
};

DnnlCall::Calls& DnnlCall::calls() {
  constinit static std::atomic<Calls*> current{nullptr};
  Calls* now = current.load();
  if (now != nullptr && !now->process.is_in_child()) return *now;
  // A forked child has none of the parent's threads that were in a call.
  auto* const made = new Calls(now);
  if (current.compare_exchange_strong(now, made)) return *made;
  delete made;
  return *now;
}

void DnnlCall::wait_for_calls() noexcept {
  Calls& c = calls();
  if (c.exit.has_begun()) return;
  c.exit.begin();
  {
    Lock lock(c.mutex);
    // A signal handler may have called exit() in the middle of a call.
    c.is_over.wait_for(lock.native(), kLongestCall,
                       [&] { return c.under_way.load() <= depth_of_calls; });
  }
  c.exit.end();
}

void DnnlCall::end(Calls& c) noexcept {
  c.under_way.fetch_sub(1);
  if (!c.exit.has_begun()) return;
  const Lock lock(c.mutex);
  c.is_over.notify_all();
}

DnnlCall::DnnlCall() : calls_(calls()) {
  calls_.under_way.fetch_add(1);
  if (calls_.exit.has_begun() && !calls_.exit.is_exiting_thread()) {
    end(calls_);
    calls_.exit.stay();
    throw_error(ErrorKind::kAborted, "another thread has called exit(): nothing is computed");
  }
  ++depth_of_calls;
}

DnnlCall::~DnnlCall() {
  --depth_of_calls;
  end(calls_);
}

void DnnlCall::guard_code_of(const Kind& kind) noexcept {
  constinit static std::array<std::atomic<std::uint64_t>, 2> guarded{};
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(kind.operations)));
  const int number = std::min(bits / 4, 7) * 8 + (kind.transpose_a ? 4 : 0) +
                     (kind.transpose_b ? 2 : 0) + (kind.accumulate ? 1 : 0);
  const std::uint64_t bit = std::uint64_t{1} << number;
  std::atomic<std::uint64_t>& kinds = guarded[kind.of_convolution ? 1 : 0];
  if ((kinds.load(std::memory_order_relaxed) & bit) != 0 || (kinds.fetch_or(bit) & bit) != 0) {
    return;
  }
  // If there is no memory for another handler, the earlier handlers still protect what they can.
  (void)std::atexit([] { wait_for_calls(); });
}

}  // namespace dl::kernels
