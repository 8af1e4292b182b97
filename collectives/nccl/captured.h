// CapturedCalls: the operations of an NCCL group in a CUDA graph; it tells the group of the graph's
// launches.
//
// Made when a capture records its first operation; belongs to the graph. The core ends all such
// graphs before it is destroyed. Thread-safety: graph.h; add() under the core's launch_mutex_,
// before the first launch.
#pragma once

#include <algorithm>
#include <utility>

#include "collectives/nccl/core.h"
#include "core/device/cuda/graph.h"

namespace dl::collectives::nccl {

inline bool is_message(const Descriptor& what) noexcept {
  return what.op == OpKind::kSend || what.op == OpKind::kRecv;
}

class CapturedCalls final : public cuda::GraphPart {
 public:
  explicit CapturedCalls(Core& core) : core_(core) {}

  void add(const Descriptor& what, std::chrono::nanoseconds timeout) noexcept {
    const bool is_one = is_message(what);
    ++(is_one ? messages_ : collectives_);
    if (!is_one || collectives_ == 0) last_ = what;
    timeout_ = std::max(timeout_, timeout);
  }

  void before_launch(const Stream& stream) override {
    if (collectives_ + messages_ == 0) return;  // the group refused what was to be captured
    under_way_ = core_.begin_graph(*this, stream);
  }
  void after_launch(const Stream& stream, const std::exception_ptr& failed) noexcept override {
    if (const Ref<Operation> launched = std::exchange(under_way_, nullptr)) {
      core_.end_graph(launched, stream, failed);
    }
  }

  std::uint64_t collectives() const noexcept { return collectives_; }
  std::uint64_t messages() const noexcept { return messages_; }
  // The last collective; the last message if there is no collective.
  const Descriptor& last() const noexcept { return last_; }
  // The longest timeout of these operations is a launch's timeout.
  std::chrono::nanoseconds timeout() const noexcept { return timeout_; }

 private:
  Core& core_;
  std::uint64_t collectives_ = 0;
  std::uint64_t messages_ = 0;
  Descriptor last_;
  std::chrono::nanoseconds timeout_{};
  Ref<Operation> under_way_;
};

}  // namespace dl::collectives::nccl
