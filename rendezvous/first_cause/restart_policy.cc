#include "rendezvous/first_cause/restart_policy.h"

#include <algorithm>

namespace dl::rendezvous {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;
constexpr int kQuickOnesWithoutDelay = 2;
constexpr int kMostDoublings = 2;  // 1, 2, 4 s

}  // namespace

Restart RestartPolicy::decide(const Failure& failure) {
  quick_ = failure.ran < kQuick ? quick_ + 1 : 0;
  const bool is_hopeless = failure.exit_code == kExitUsage ||
                           failure.exit_code == kExitNotExecutable ||
                           failure.exit_code == kExitNotFound;
  if (failure.is_final || is_hopeless || used_ >= most_) return {};
  ++used_;
  Restart restart{.again = true, .number = used_, .most = most_};
  if (quick_ > kQuickOnesWithoutDelay) {
    const int doublings = std::min(quick_ - kQuickOnesWithoutDelay - 1, kMostDoublings);
    restart.delay = std::chrono::seconds(1 << doublings);
  }
  return restart;
}

}  // namespace dl::rendezvous
