#include "nn/parallel/capture_step.h"

#include <fmt/format.h>

#include <utility>

#include "collectives/compose/objects.h"
#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/module/module.h"
#include "core/memory/cuda/cuda_memory.h"

namespace dl::cuda {
namespace {

// While it lives, allocations on a stream come from the graph's private memory pool.
class PoolGuard {
 public:
  PoolGuard(int device, const Stream& stream)
      : memory_(allocator(device)), stream_(stream.handle), id_(memory_.begin_pool(stream_)) {}
  PoolGuard(const PoolGuard&) = delete;
  PoolGuard& operator=(const PoolGuard&) = delete;
  ~PoolGuard() { memory_.end_pool(stream_); }
  PoolId id() const noexcept { return id_; }

 private:
  CachingAllocator& memory_;
  void* stream_;
  PoolId id_;
};

std::string form_of(const Tensor& tensor) {
  return fmt::format("{}{}", name_of(tensor.dtype()), tensor.sizes().str());
}

}  // namespace

CapturedStep::CapturedStep(Step step, CaptureStepOptions options)
    : step_(std::move(step)), options_(std::move(options)) {
  DL_CHECK(step_ != nullptr, kInvalidArgument, "capture_step: there is no function");
  DL_CHECK(options_.warmup_steps >= 1, kInvalidArgument,
           "capture_step: warmup_steps is {}, wanted at least 1", options_.warmup_steps);
}

CapturedStep::~CapturedStep() {
  forget();
}

std::vector<Tensor> CapturedStep::operator()(const std::vector<Tensor>& inputs) {
  if (!options_.enabled) return run(inputs);
  if (!decided_) {
    if (warmups_ < options_.warmup_steps) {
      std::vector<Tensor> outputs = run(inputs);
      ++warmups_;
      return outputs;
    }
    decide(inputs);
  }
  return is_captured() && fits(inputs) ? launch(inputs) : run(inputs);
}

std::vector<Tensor> CapturedStep::run(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> there;
  for (const Tensor& input : inputs) {
    there.push_back(input.to(options_.device, {.non_blocking = true}));
  }
  return step_(there);
}

std::vector<Tensor> CapturedStep::launch(const std::vector<Tensor>& inputs) {
  if (options_.group) {
    if (const std::exception_ptr cause = options_.group->error()) std::rethrow_exception(cause);
  }
  const NoGradGuard no_grad;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs_[i].copy_(inputs[i], {.non_blocking = true});
  }
  bring_learning_rates();
  graph_->launch(current_stream(options_.device.index));
  ++launches_;
  return outputs_;
}

void CapturedStep::decide(const std::vector<Tensor>& inputs) {
  std::string why = capture(inputs);
  const Ref<collectives::ProcessGroup>& group = options_.group;
  if (group && group->size() > 1) {
    const std::vector<std::string> all = collectives::all_gather_bytes(*group, why);
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (all[r].empty()) continue;
      why = fmt::format("rank {}: {}", r, all[r]);
      break;
    }
  }
  decided_ = true;
  if (why.empty()) return;
  forget();
  why_not_ = std::move(why);
  if (is_first_rank()) {
    log::warning("capture_step: steps are not captured, and run as they are: {}", why_not_);
  }
}

std::string CapturedStep::capture(const std::vector<Tensor>& inputs) {
  if (options_.device.type != DeviceType::kCUDA) {
    return fmt::format("the device is {}, and only CUDA devices have graphs",
                       options_.device.str());
  }
  try {
    forget();
    const DeviceGuard on_device(options_.device.index);
    {
      const NoGradGuard no_grad;
      for (const Tensor& input : inputs) {
        inputs_.push_back(input.device() == options_.device ? input.clone()
                                                            : input.to(options_.device));
      }
    }
    // Copy learning rates before the capture: a copy inside it would be repeated by every launch.
    bring_learning_rates();
    // Capture on a stream of its own. Other threads may use the current stream, and their work
    // would be captured instead of run. Nothing runs during a capture, so no stream has to wait for
    // another.
    const OwnedStream own(options_.device.index);
    const PoolGuard pool(options_.device.index, own.get());
    pool_ = pool.id();
    auto graph = std::make_unique<Graph>(runtime());  // destroyed before the pool
    const StreamGuard on_own(own.get());
    graph->begin(own.get());
    for (const Tensor& output : step_(inputs_)) outputs_.push_back(output.detach());
    graph->end();
    graph_ = std::move(graph);
    return {};
  } catch (const std::exception& error) {
    const std::string why = error.what();
    forget();
    return why.empty() ? "an exception without a text" : why;
  }
}

// Destroys the graph before the memory that it uses.
void CapturedStep::forget() noexcept {
  graph_ = nullptr;
  outputs_.clear();
  inputs_.clear();
  if (const PoolId pool = std::exchange(pool_, 0)) {
    allocator(options_.device.index).release_pool(pool);
  }
}

bool CapturedStep::fits(const std::vector<Tensor>& inputs) {
  DL_CHECK(inputs.size() == inputs_.size(), kInvalidArgument,
           "capture_step: got {} inputs, but the step was captured with {}", inputs.size(),
           inputs_.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].sizes() == inputs_[i].sizes() && inputs[i].dtype() == inputs_[i].dtype()) {
      continue;
    }
    if (!std::exchange(said_unfit_, true) && is_first_rank()) {
      log::warning("capture_step: input {} is {}, the captured one {}; such steps run as they are",
                   i, form_of(inputs[i]), form_of(inputs_[i]));
    }
    return false;
  }
  return true;
}

bool CapturedStep::is_first_rank() const noexcept {
  return !options_.group || options_.group->rank() == 0;
}

void CapturedStep::bring_learning_rates() {
  for (optim::Optimizer* const optimizer : options_.optimizers) optimizer->sync_learning_rates();
}

CapturedStep capture_step(Step step, CaptureStepOptions options) {
  return CapturedStep(std::move(step), std::move(options));
}

}  // namespace dl::cuda
