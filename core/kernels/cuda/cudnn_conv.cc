#include "core/kernels/cuda/cudnn_conv.h"

#include <array>
#include <cstring>
#include <memory>
#include <span>

#include "core/base/log.h"
#include "core/device/math_flags.h"
#include "core/kernels/cuda/handles.h"
#include "core/kernels/cuda/real_runtime.h"
#include "core/kernels/lru_cache.h"
#include "core/tensor/dtype_types.h"

namespace dl::kernels::cuda {
namespace {

constexpr std::size_t kPlans = 512;
// Scratch memory that an algorithm may ask for.
constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;
constexpr int kMostAlgorithms = 10;

struct Key {
  ConvShape shape;
  std::int32_t dtype;
  std::int32_t direction;
  std::int32_t tf32;
  std::int32_t benchmark;
  friend bool operator==(const Key& a, const Key& b) noexcept {
    return std::memcmp(&a, &b, sizeof(Key)) == 0;  // has no padding: LruCache checks
  }
};

struct Plan {
  Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor> x, y;
  Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor> weight;
  Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor> convolution;
  int algorithm = -1;  // none
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::size_t workspace = 0;
};

struct Dnn {
  Dnn() { DL_CUDNN_CHECK(cudnnCreate(&handle)); }
  cudnnHandle_t handle = nullptr;
  LruCache<Key, Plan> plans{kPlans};
};

struct Operands {
  const void* first;
  const void* second;
  void* result;
};

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return CUDNN_DATA_HALF;
    case DType::kBF16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kF32:
      return CUDNN_DATA_FLOAT;
    default:
      refuse_dtype("conv2d", dtype, "float16, bfloat16, float32 or float64");
  }
}

void describe(const Key& key, Plan& plan) {
  const ConvShape& s = key.shape;
  const auto dtype = static_cast<DType>(key.dtype);
  const cudnnDataType_t type = type_of(dtype);
  DL_CUDNN_CHECK(cudnnCreateTensorDescriptor(plan.x.out()));
  DL_CUDNN_CHECK(
      cudnnSetTensor4dDescriptor(plan.x.get(), CUDNN_TENSOR_NHWC, type, s.n, s.c_in, s.h, s.w));
  DL_CUDNN_CHECK(cudnnCreateTensorDescriptor(plan.y.out()));
  DL_CUDNN_CHECK(cudnnSetTensor4dDescriptor(plan.y.get(), CUDNN_TENSOR_NHWC, type, s.n, s.c_out,
                                            s.out_h, s.out_w));
  DL_CUDNN_CHECK(cudnnCreateFilterDescriptor(plan.weight.out()));
  DL_CUDNN_CHECK(cudnnSetFilter4dDescriptor(plan.weight.get(), type, CUDNN_TENSOR_NHWC, s.c_out,
                                            s.c_in / s.groups, s.kh, s.kw));
  DL_CUDNN_CHECK(cudnnCreateConvolutionDescriptor(plan.convolution.out()));
  DL_CUDNN_CHECK(cudnnSetConvolution2dDescriptor(plan.convolution.get(), s.pad_h, s.pad_w,
                                                 s.stride_h, s.stride_w, s.dilation_h, s.dilation_w,
                                                 CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  DL_CUDNN_CHECK(cudnnSetConvolutionGroupCount(plan.convolution.get(), s.groups));
  plan.math = dtype != DType::kF32 ? CUDNN_TENSOR_OP_MATH
              : key.tf32 != 0      ? CUDNN_DEFAULT_MATH  // which may be TF32
                                   : CUDNN_FMA_MATH;
  DL_CUDNN_CHECK(cudnnSetConvolutionMathType(plan.convolution.get(), plan.math));
}

// The first of cuDNN's proposals, the best first, that is deterministic and small enough.
template <typename Perf>
bool choose(std::span<const Perf> proposals, Plan& plan) {
  for (const Perf& proposal : proposals) {
    if (proposal.status != CUDNN_STATUS_SUCCESS || proposal.memory > kMostWorkspace ||
        proposal.determinism != CUDNN_DETERMINISTIC) {
      continue;
    }
    plan.algorithm = static_cast<int>(proposal.algo);
    plan.workspace = proposal.memory;
    // Some of half width compute without tensor cores. For f32 the flag alone says what may be.
    if (plan.math == CUDNN_TENSOR_OP_MATH) {
      DL_CUDNN_CHECK(cudnnSetConvolutionMathType(plan.convolution.get(), proposal.mathType));
    }
    return true;
  }
  return false;
}

// Timing runs on the operands and writes the result, which the caller then computes anyway.
template <typename Perf, typename Ask, typename Time>
bool plan_with(const Key& key, const Launch& launch, Plan& plan, const Ask& ask, const Time& time) {
  std::array<Perf, kMostAlgorithms> found;
  int count = 0;
  if (key.benchmark != 0) {
    const Workspace scratch(kMostWorkspace / 4, launch.stream());
    DL_CUDNN_CHECK(time(found.data(), &count, scratch));
  } else {
    DL_CUDNN_CHECK(ask(found.data(), &count));
  }
  return choose<Perf>(std::span(found).first(static_cast<std::size_t>(count)), plan);
}

std::unique_ptr<Plan> make_plan(const Key& key, cudnnHandle_t handle, const Operands& operands,
                                const Launch& launch) {
  auto plan = std::make_unique<Plan>();
  describe(key, *plan);
  const Plan& p = *plan;
  bool good = false;
  switch (static_cast<ConvDirection>(key.direction)) {
    case ConvDirection::kForward:
      good = plan_with<cudnnConvolutionFwdAlgoPerf_t>(
          key, launch, *plan,
          [&](auto* found, int* count) {
            return cudnnGetConvolutionForwardAlgorithm_v7(handle, p.x.get(), p.weight.get(),
                                                          p.convolution.get(), p.y.get(),
                                                          kMostAlgorithms, count, found);
          },
          [&](auto* found, int* count, const Workspace& scratch) {
            return cudnnFindConvolutionForwardAlgorithmEx(
                handle, p.x.get(), operands.first, p.weight.get(), operands.second,
                p.convolution.get(), p.y.get(), operands.result, kMostAlgorithms, count, found,
                scratch.data(), scratch.bytes());
          });
      break;
    case ConvDirection::kBackwardData:
      good = plan_with<cudnnConvolutionBwdDataAlgoPerf_t>(
          key, launch, *plan,
          [&](auto* found, int* count) {
            return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p.weight.get(), p.y.get(),
                                                               p.convolution.get(), p.x.get(),
                                                               kMostAlgorithms, count, found);
          },
          [&](auto* found, int* count, const Workspace& scratch) {
            return cudnnFindConvolutionBackwardDataAlgorithmEx(
                handle, p.weight.get(), operands.second, p.y.get(), operands.first,
                p.convolution.get(), p.x.get(), operands.result, kMostAlgorithms, count, found,
                scratch.data(), scratch.bytes());
          });
      break;
    case ConvDirection::kBackwardWeight:
      good = plan_with<cudnnConvolutionBwdFilterAlgoPerf_t>(
          key, launch, *plan,
          [&](auto* found, int* count) {
            return cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                handle, p.x.get(), p.y.get(), p.convolution.get(), p.weight.get(), kMostAlgorithms,
                count, found);
          },
          [&](auto* found, int* count, const Workspace& scratch) {
            return cudnnFindConvolutionBackwardFilterAlgorithmEx(
                handle, p.x.get(), operands.first, p.y.get(), operands.second, p.convolution.get(),
                p.weight.get(), operands.result, kMostAlgorithms, count, found, scratch.data(),
                scratch.bytes());
          });
      break;
  }
  if (!good) {
    const ConvShape& s = key.shape;
    log::warning(
        "conv2d: cuDNN has no deterministic algorithm for images [{}, {}, {}, {}] and weights "
        "[{}, {}, {}, {}] of {}; a slow kernel of dlrun's own computes it",
        s.n, s.c_in, s.h, s.w, s.c_out, s.c_in / s.groups, s.kh, s.kw,
        name_of(static_cast<DType>(key.dtype)));
  }
  return plan;
}

}  // namespace

bool cudnn_conv(ConvDirection direction, const ConvShape& shape, DType dtype, const void* first,
                const void* second, void* result, const Launch& launch) {
  const dl::detail::MathFlags& flags = *dl::cuda::opener().math;
  const Key key{
      .shape = shape,
      .dtype = static_cast<std::int32_t>(dtype),
      .direction = static_cast<std::int32_t>(direction),
      .tf32 = dtype == DType::kF32 && flags.cudnn_tf32.load(std::memory_order_relaxed) ? 1 : 0,
      .benchmark = flags.cudnn_benchmark.load(std::memory_order_relaxed) ? 1 : 0};
  Dnn& dnn = of_this_thread<Dnn>();
  DL_CUDNN_CHECK(cudnnSetStream(dnn.handle, launch.stream()));
  const Plan& p = dnn.plans.get(
      key, [&] { return make_plan(key, dnn.handle, {first, second, result}, launch); });
  if (p.algorithm < 0) return false;
  const Workspace scratch(p.workspace, launch.stream());
  const float one = 1;
  const float zero = 0;
  switch (direction) {
    case ConvDirection::kForward:
      DL_CUDNN_CHECK(cudnnConvolutionForward(
          dnn.handle, &one, p.x.get(), first, p.weight.get(), second, p.convolution.get(),
          static_cast<cudnnConvolutionFwdAlgo_t>(p.algorithm), scratch.data(), scratch.bytes(),
          &zero, p.y.get(), result));
      break;
    case ConvDirection::kBackwardData:
      DL_CUDNN_CHECK(cudnnConvolutionBackwardData(
          dnn.handle, &one, p.weight.get(), second, p.y.get(), first, p.convolution.get(),
          static_cast<cudnnConvolutionBwdDataAlgo_t>(p.algorithm), scratch.data(), scratch.bytes(),
          &zero, p.x.get(), result));
      break;
    case ConvDirection::kBackwardWeight:
      DL_CUDNN_CHECK(cudnnConvolutionBackwardFilter(
          dnn.handle, &one, p.x.get(), first, p.y.get(), second, p.convolution.get(),
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(p.algorithm), scratch.data(),
          scratch.bytes(), &zero, p.weight.get(), result));
      break;
  }
  return true;
}

}  // namespace dl::kernels::cuda
