// CUDA's gradient clipping and averages of weights. Nothing here reads a number of the device, so
// that graphs can capture it.
#include <cstdint>

#include "core/kernels/cuda/optimizer/lists_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/declared/optimizer.h"

namespace dl::kernels::cuda {

void grad_norm(std::span<const Tensor> gradients, double p, const Tensor& norm) {
  const Launch launch;
  std::int64_t parts = 0;
  for (const Tensor& gradient : gradients) parts += (gradient.numel() + kChunk - 1) / kChunk;
  const Workspace workspace(static_cast<std::size_t>(parts) * sizeof(double), launch.stream());
  auto* next = workspace.as<double>();
  for_each_list_of(gradients, [&](const TensorList<1>& list, int blocks) {
    norm_parts_launch(list, blocks, p, next, launch.stream());
    next += blocks;
  });
  norm_launch(workspace.as<double>(), parts, p, norm.data_ptr(), norm.dtype(), launch.stream());
  DL_CUDA_LAUNCHED("grad_norm");
}

void clip_grad_norm(std::span<const Tensor> gradients, double max_norm, const Tensor& norm) {
  const Launch launch;
  for_each_list_of(gradients, [&](const TensorList<1>& list, int blocks) {
    clip_norm_launch(list, blocks, max_norm, norm.data_ptr(), norm.dtype(), launch.stream());
  });
  DL_CUDA_LAUNCHED("clip_grad_norm_");
}

void clip_grad_value(Device, std::span<const Tensor> gradients, double bound) {
  const Launch launch;
  for_each_list_of(gradients, [&](const TensorList<1>& list, int blocks) {
    clip_value_launch(list, blocks, bound, launch.stream());
  });
  DL_CUDA_LAUNCHED("clip_grad_value_");
}

void average_weights(std::span<const Tensor> averages, std::span<const Tensor> values,
                     const Tensor& count, const AverageStep& step) {
  const Launch launch;
  const bool copies = step.kind == AverageStep::Kind::kCopy;
  for_each_list<2>(
      averages.size(), [&](std::size_t i) { return averages[i].numel(); },
      [&](TensorList<2>& list, int slot, std::size_t i) {
        const DType dtype = averages[i].dtype();
        list.pointers[slot][0] = averages[i].data_ptr();
        list.pointers[slot][1] = values[i].data_ptr();
        list.marks[slot] =
            static_cast<std::uint8_t>(copies ? size_of(dtype) : static_cast<std::size_t>(dtype));
      },
      [&](const TensorList<2>& list, int blocks, int) {
        if (copies) {
          copy_list_launch(list, blocks, launch.stream());
        } else {
          average_launch(list, blocks, count.data<std::int64_t>(), step, launch.stream());
        }
      });
  DL_CUDA_LAUNCHED("average_weights");
}

}  // namespace dl::kernels::cuda
