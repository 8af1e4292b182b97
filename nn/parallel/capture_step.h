// capture_step: captures a training step into a CUDA graph once, and then launches the whole graph.
// So the host submits one launch instead of hundreds of kernels.
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
// The first calls (warmup_steps) run the function normally: optimizers create their state, DDP its
// buckets, libraries choose their algorithms and NCCL connects. The next call captures the
// function, and all ranks of the group tell each other whether they succeeded. Then either all
// ranks launch graphs, or all run the function as before, and rank 0 logs the reason once. A launch
// copies the call's inputs into the captured inputs. It runs none of the function's host code: no
// counters, hooks or prints.
//
// Put the whole step into the function, zero_grad() included. It cannot capture: waits for the
// device (item(), cpu(), copies from or to the host), copies between devices, DDP with
// find_unused_parameters, and collectives that go through the host. If the inputs of a call have
// other shapes or dtypes than the captured ones (a smaller last batch), the call runs the function.
// This must happen on all ranks in the same call.
//
// The capture uses its own stream, and launches use the current one, so other threads may use the
// device meanwhile.
//
// The graph owns its memory: every launch writes to the same output tensors. An error of the group
// destroys its graphs, and the next call throws the error. A launch has the longest deadline of its
// collectives; see docs/guides/collectives.md.
//
// Ownership: holds the function, the group and the graph. The optimizers must outlive it. Destroy
// it before the group. Thread-safety: none; use it on the thread that trains.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/api/process_group.h"
#include "core/device/cuda/graph.h"
#include "core/memory/cuda/caching_allocator.h"
#include "core/tensor/tensor.h"
#include "nn/optim/optimizer.h"

namespace dl::cuda {

using Step = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

struct CaptureStepOptions {
  Device device{};                         // to which inputs are copied
  Ref<collectives::ProcessGroup> group{};  // ranks that must agree to capture; null: this rank only
  std::vector<optim::Optimizer*> optimizers{};  // in the step; launches read their learning rates
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
  // Why calls run the function; empty before the capture, and if calls launch graphs.
  const std::string& why_not() const noexcept { return why_not_; }
  std::int64_t launches() const noexcept { return launches_; }

 private:
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  std::vector<Tensor> launch(const std::vector<Tensor>& inputs);
  // Collective.
  void decide(const std::vector<Tensor>& inputs);
  // Returns the reason of a failure; empty on success.
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
  std::vector<Tensor> inputs_;  // read by the graph
  std::vector<Tensor> outputs_;
  std::unique_ptr<Graph> graph_;
};

// Throws kInvalidArgument for a bad option.
CapturedStep capture_step(Step step, CaptureStepOptions options = {});

}  // namespace dl::cuda
