#include "core/kernels/cuda/optimizer.h"

#include "core/kernels/cuda/launch.h"
#include "core/kernels/cuda/optimizer_kernels.h"

namespace dl::kernels::cuda {

void sgd_step(Device, DType dtype, std::span<const SgdTensor> tensors, const SgdStep& step,
              const OptimizerScalars& scalars) {
  const Launch launch;
  for_each_list<3>(
      tensors.size(), [&](std::size_t i) { return tensors[i].n; },
      [&](TensorList<3>& list, int slot, std::size_t i) {
        const SgdTensor& t = tensors[i];
        list.pointers[slot][0] = t.parameter;
        list.pointers[slot][1] = const_cast<void*>(t.gradient);
        list.pointers[slot][2] = t.momentum;
        list.marks[slot] = t.first_step ? 1 : 0;
      },
      [&](const TensorList<3>& list, int blocks, int) {
        sgd_launch(dtype, list, blocks, step, scalars, launch.stream());
      });
  DL_CUDA_LAUNCHED("sgd_step");
}

void adam_step(Device, DType dtype, std::span<const AdamTensor> tensors, const AdamStep& step,
               const OptimizerScalars& scalars) {
  const Launch launch;
  const auto add = [&](TensorList<5>& list, int slot, std::size_t i) {
    const AdamTensor& t = tensors[i];
    list.pointers[slot][0] = t.parameter;
    list.pointers[slot][1] = const_cast<void*>(t.gradient);
    list.pointers[slot][2] = t.mean;
    list.pointers[slot][3] = t.square;
    list.pointers[slot][4] = t.step;
  };
  // All counts first, one block a tensor: a tensor of many chunks stands in several lists below.
  for_each_list<5>(
      tensors.size(), [](std::size_t) { return std::int64_t{1}; }, add,
      [&](const TensorList<5>& list, int, int count) {
        count_steps_launch(list, count, scalars, launch.stream());
      });
  for_each_list<5>(
      tensors.size(), [&](std::size_t i) { return tensors[i].n; }, add,
      [&](const TensorList<5>& list, int blocks, int) {
        adam_launch(dtype, list, blocks, step, scalars, launch.stream());
      });
  DL_CUDA_LAUNCHED("adam_step");
}

void amp_unscale(const Tensor& inverse_scale, std::span<const Tensor> gradients,
                 const Tensor& found_inf) {
  for (const Tensor& gradient : gradients) {
    DL_CHECK(gradient.is_contiguous() || gradient.is_channels_last(), kNotImplemented,
             "amp_unscale: a gradient of shape {} and strides {}, wanted one without gaps",
             gradient.sizes().str(), gradient.strides().str());
  }
  const Launch launch;
  for_each_list<1>(
      gradients.size(), [&](std::size_t i) { return gradients[i].numel(); },
      [&](TensorList<1>& list, int slot, std::size_t i) {
        list.pointers[slot][0] = gradients[i].data_ptr();
        list.marks[slot] = static_cast<std::uint8_t>(gradients[i].dtype());
      },
      [&](const TensorList<1>& list, int blocks, int) {
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
