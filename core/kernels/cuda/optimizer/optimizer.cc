// CUDA's optimizer steps and gradient scaling, on device pointers. Learning rate, scale and step
// counts may be in device memory.
#include "core/kernels/declared/optimizer.h"

#include <algorithm>
#include <variant>

#include "core/kernels/cuda/optimizer/optimizer_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"

namespace dl::kernels::cuda {

namespace {

template <typename Step>
void step_of(DType dtype, std::span<const OptimizerTensor> tensors, const Step& step,
             const OptimizerScalars& scalars) {
  constexpr int kPointers = kPointersOf<Step>;
  const StepLaunches<Step>& launches = optimizer_launches;
  const Launch launch;
  const auto add = [&](ListOf<Step>& list, int slot, std::size_t i) {
    const OptimizerTensor& t = tensors[i];
    void** const to = list.pointers[slot];
    to[0] = t.parameter;
    to[1] = const_cast<void*>(t.gradient);
    std::copy_n(t.state, Step::kState, to + 2);
    std::copy_n(t.counts, Step::kCounts, to + 2 + Step::kState);
    list.marks[slot] = t.first_step ? 1 : 0;
  };
  if constexpr (Step::kCounts > 0) {
    // Increment all counts first, one block for each tensor: a tensor of many chunks is in several
    // lists below.
    for_each_list<kPointers>(
        tensors.size(), [](std::size_t) { return std::int64_t{1}; }, add,
        [&](const ListOf<Step>& list, int, int count) {
          launches.raise_counts(list, count, step, scalars, launch.stream());
        });
  }
  for_each_list<kPointers>(
      tensors.size(), [&](std::size_t i) { return tensors[i].n; }, add,
      [&](const ListOf<Step>& list, int blocks, int) {
        launches.update(dtype, list, blocks, step, scalars, launch.stream());
      });
  DL_CUDA_LAUNCHED("optimizer_step");
}

}  // namespace

void optimizer_step(Device, DType dtype, std::span<const OptimizerTensor> tensors,
                    const OptimizerStep& step, const OptimizerScalars& scalars) {
  std::visit([&](const auto& kind) { step_of(dtype, tensors, kind, scalars); }, step);
}

void amp_unscale(const Tensor& inverse_scale, std::span<const Tensor> gradients,
                 const Tensor& found_inf) {
  for (const Tensor& gradient : gradients) {
    DL_CHECK(gradient.is_contiguous() || gradient.is_channels_last(), kNotImplemented,
             "amp_unscale: a gradient of shape {} and strides {}, wanted one without gaps",
             gradient.sizes().str(), gradient.strides().str());
  }
  const Launch launch;
  for_each_list_of(gradients, [&](const TensorList<1>& list, int blocks) {
    unscale_launch(list, blocks, inverse_scale.data<float>(), found_inf.data<float>(),
                   launch.stream());
  });
  DL_CUDA_LAUNCHED("amp_unscale");
}

void amp_update_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf,
                      const ScaleUpdate& update) {
  const Launch launch;
  update_scale_launch(scale.data<float>(), growth_tracker.data<std::int32_t>(),
                      found_inf.data<float>(), update.growth_factor, update.backoff_factor,
                      update.growth_interval, launch.stream());
  DL_CUDA_LAUNCHED("amp_update_scale");
}

}  // namespace dl::kernels::cuda
