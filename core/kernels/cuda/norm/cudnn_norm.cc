#include "core/kernels/cuda/norm/cudnn_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <limits>
#include <vector>

#include "core/kernels/cuda/cudnn/shape_plans.h"
#include "core/kernels/cuda/runtime/handles.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/tensor/dtype_types.h"

namespace dl::kernels::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;  // in bytes; cuDNN loads that many
// cuDNN counts in 32 bits. norm.cc refuses larger batches with a sentence.
constexpr std::int64_t kMostOfCudnn = std::numeric_limits<std::int32_t>::max();

struct Key {
  std::int64_t backward;
  std::int64_t dtype;
  std::int64_t samples, channels, positions;
  std::int64_t has_running, has_relu, has_residual;
  friend bool operator==(const Key&, const Key&) = default;
};
using BatchNormPlans = dnn::ShapePlans<Key>;

bool fits(const Tensor& tensor) {
  return !tensor.defined() || reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % kAlignment == 0;
}

// Batches may be undefined.
bool takes(const BatchNormArgs& args, const Tensor& x, std::initializer_list<Tensor> batches,
           std::initializer_list<Tensor> numbers, const Launch& launch) {
  const DType dtype = x.dtype();
  return dnn::plans_are_made(launch) && args.batch_statistics && args.channels_last &&
         dtype != DType::kF64 && x.numel() > 0 && x.numel() <= kMostOfCudnn &&
         static_cast<float>(args.eps) > 0 &&
         args.channels * static_cast<std::int64_t>(size_of(dtype)) % kAlignment == 0 &&
         std::ranges::all_of(batches, fits) &&
         std::ranges::all_of(numbers, [](const Tensor& tensor) {
           return tensor.defined() && tensor.dtype() == DType::kF32 && fits(tensor);
         });
}

dnn::Plan* find(const Key& key, const std::function<dnn::Graph()>& make_graph) {
  const auto describe = [&key] {
    return fmt::format("{} samples of {} channels and {} positions in {}", key.samples,
                       key.channels, key.positions, name_of(static_cast<DType>(key.dtype)));
  };
  return of_this_thread<BatchNormPlans>().find(
      key, make_graph, {key.backward != 0 ? "batch_norm_backward" : "batch_norm", describe});
}

BatchNormGraphShape shape_of(const Key& key) {
  return {static_cast<DType>(key.dtype), key.samples,       key.channels,         key.positions,
          key.has_running != 0,          key.has_relu != 0, key.has_residual != 0};
}

Key key_of(const BatchNormArgs& args, DType dtype, bool relu, const Tensor& residual) {
  return {.backward = 0,
          .dtype = static_cast<std::int64_t>(dtype),
          .samples = args.samples,
          .channels = args.channels,
          .positions = args.positions,
          .has_running = 0,
          .has_relu = relu ? 1 : 0,
          .has_residual = residual.defined() ? 1 : 0};
}

}  // namespace

bool cudnn_batch_norm(const BatchNormArgs& args, const Tensor& x, const Tensor& weight,
                      const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                      const Tensor& residual, bool relu, const Tensor& y, const Tensor& stats) {
  const Launch launch;
  const bool has_running = running_mean.defined();
  if (!takes(args, x, {x, y, residual}, {weight, bias, stats}, launch) ||
      (has_running && !takes(args, x, {}, {running_mean, running_var}, launch))) {
    return false;
  }
  Key key = key_of(args, x.dtype(), relu, residual);
  key.has_running = has_running ? 1 : 0;
  dnn::Plan* const plan = find(key, [&] { return batch_norm_graph(shape_of(key)); });
  if (plan == nullptr) return false;

  // The mean's rounding error stays 0.
  const auto channels = static_cast<std::size_t>(args.channels);
  float* const mean = stats.data<float>();
  float* const scale = mean + channels;
  const std::size_t bytes = channels * sizeof(float);
  DL_CUDA_CHECK(cudaMemsetAsync(scale + channels, 0, bytes, launch.stream()));
  const auto eps = static_cast<float>(args.eps);
  std::vector<void*> memory = {x.data_ptr(), weight.data_ptr(), bias.data_ptr()};
  const auto add = [&memory](std::initializer_list<void*> more) {
    memory.insert(memory.end(), more);
  };
  if (has_running) add({running_mean.data_ptr(), running_var.data_ptr()});
  if (residual.defined()) add({residual.data_ptr()});
  add({mean, scale});
  // cuDNN promises nothing for results that lie over inputs.
  const std::size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const Workspace moved(has_running ? 2 * padded : 0, launch.stream());
  void* const moved_var = moved.as<std::byte>() + padded;
  if (has_running) add({moved.data(), moved_var});
  add({y.data_ptr()});
  if (!has_running) return dnn::run(*plan, memory, launch, {eps});
  if (!dnn::run(*plan, memory, launch, {eps, static_cast<float>(args.momentum)})) return false;
  const auto keep = [&](const Tensor& running, const void* from) {
    DL_CUDA_CHECK(cudaMemcpyAsync(running.data_ptr(), from, bytes, cudaMemcpyDeviceToDevice,
                                  launch.stream()));
  };
  keep(running_mean, moved.data());
  keep(running_var, moved_var);
  return true;
}

bool cudnn_batch_norm_backward(const BatchNormArgs& args, const Tensor& dy, const Tensor& y,
                               const Tensor& x, const Tensor& weight, const Tensor& stats,
                               const Tensor& dresidual, const Tensor& dx, const Tensor& dweight,
                               const Tensor& dbias) {
  const Launch launch;
  if (!dx.defined() || !takes(args, x, {dy, y, x, dresidual, dx}, {weight, stats}, launch)) {
    return false;
  }
  for (const Tensor& gradient : {dweight, dbias}) {
    if (gradient.defined() && !takes(args, x, {}, {gradient}, launch)) return false;
  }
  Key key = key_of(args, x.dtype(), y.defined(), dresidual);
  key.backward = 1;
  dnn::Plan* const plan = find(key, [&] { return batch_norm_backward_graph(shape_of(key)); });
  if (plan == nullptr) return false;
  const auto channels = static_cast<std::size_t>(args.channels);
  float* const mean = stats.data<float>();
  // cuDNN always writes the gradients of weight and bias.
  const auto bytes_of = [&](const Tensor& gradient) {
    return gradient.defined() ? std::size_t{0} : channels * sizeof(float);
  };
  const Workspace unwanted_dweight(bytes_of(dweight), launch.stream());
  const Workspace unwanted_dbias(bytes_of(dbias), launch.stream());
  std::vector<void*> memory = {dy.data_ptr()};
  if (y.defined()) memory.push_back(y.data_ptr());
  for (void* const read : {x.data_ptr(), weight.data_ptr()}) memory.push_back(read);
  memory.push_back(mean);
  memory.push_back(mean + channels);
  if (dresidual.defined()) memory.push_back(dresidual.data_ptr());
  memory.push_back(dx.data_ptr());
  memory.push_back(dweight.defined() ? dweight.data_ptr() : unwanted_dweight.data());
  memory.push_back(dbias.defined() ? dbias.data_ptr() : unwanted_dbias.data());
  return dnn::run(*plan, memory, launch);
}

}  // namespace dl::kernels::cuda
