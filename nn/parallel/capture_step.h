// capture_step: a training step that is captured into a CUDA graph once and launched as a whole
// from then on, so that the host gives the device one piece of work where it gave hundreds.
//
//     cuda::CapturedStep step = cuda::capture_step(
//         [&](std::span<const Tensor> batch) -> std::vector<Tensor> {
//           optimizer.zero_grad();
//           const Tensor loss = nn::functional::cross_entropy(ddp(batch[0]), batch[1]);
//           loss.backward();
//           optimizer.step();
//           return {loss};
//         },
//         {.device = device, .group = group, .optimizers = {&optimizer}});
//     for (const data::Batch& batch : loader) show(step({batch[0], batch[1]})[0]);
//
// The first call runs the function as it is: optimizers make their state, DDP its buckets,
// libraries choose their algorithms and NCCL connects. The next call captures it, all ranks of the
// group say whether they could, and either all launch graphs from then on or all go on as before;
// rank 0 says once why. A launch copies the call's inputs into those that were captured, and runs
// nothing of the function on the host: no counter counts, no hook is called, nothing is printed.
//
// The whole step belongs into the function, zero_grad() included. What cannot be captured: waiting
// for the device (item(), cpu(), copies from or to the host), copies between devices, random
// numbers (dropout), DDP with find_unused_parameters, and collectives that go through the host. A
// call whose inputs have other shapes or dtypes than those captured (a smaller last batch) runs the
// function; the same holds for all ranks, as they must call alike.
//
// The capture is on a stream of its own, launches are on the current one: other threads may go on
// with the device meanwhile.
//
// Memory of the graph is its own, as long as it lives: the outputs are the same tensors after every
// launch, and the next overwrites them. An error of the group ends its graphs, and the next call
// throws it. A launch has the longest deadline of its collectives; see docs/guides/collectives.md.
//
// Ownership: holds the function, the group and the graph; the optimizers must outlive it. Destroy
// it before the group. Thread-safety: none; it belongs on the thread that trains.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/process_group.h"
#include "core/device/cuda/graph.h"
#include "core/memory/cuda/caching_allocator.h"
#include "core/tensor/tensor.h"
#include "nn/optim/optimizer.h"

namespace dl::cuda {

using Step = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

struct CaptureStepOptions {
  Device device{};                              // to which inputs are brought
  Ref<collectives::ProcessGroup> group{};       // ranks that decide together; null: this one alone
  std::vector<optim::Optimizer*> optimizers{};  // in the step: launches follow their learning rates
  int warmup_steps = 1;                         // calls before the capture; at least 1
  bool enabled = true;                          // false: every call runs the function
};

class CapturedStep {
 public:
  CapturedStep(Step step, CaptureStepOptions options);
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;
  ~CapturedStep();

  // One step. Throws what the function throws, and the group's error.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);

  bool is_captured() const noexcept { return graph_ != nullptr; }
  // Why calls run the function; empty where they do not, and before it is decided.
  const std::string& why_not() const noexcept { return why_not_; }
  std::int64_t launches() const noexcept { return launches_; }

 private:
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  std::vector<Tensor> launch(const std::vector<Tensor>& inputs);
  // Collective.
  void decide(const std::vector<Tensor>& inputs);
  // Why it could not; empty where it could.
  std::string capture(const std::vector<Tensor>& inputs);
  void forget() noexcept;
  bool fits(const std::vector<Tensor>& inputs);
  void bring_learning_rates();
  bool is_first_rank() const noexcept;

  Step step_;
  CaptureStepOptions options_;
  int warmups_ = 0;
  bool decided_ = false;
  bool said_unfit_ = false;
  std::string why_not_;
  std::int64_t launches_ = 0;

  PoolId pool_ = 0;
  std::vector<Tensor> inputs_;  // which the graph reads
  std::vector<Tensor> outputs_;
  std::unique_ptr<Graph> graph_;
};

// Throws kInvalidArgument for a bad option.
CapturedStep capture_step(Step step, CaptureStepOptions options = {});

}  // namespace dl::cuda
