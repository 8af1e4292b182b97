#include "core/kernels/cuda/conv/cudnn_conv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/log/log.h"
#include "core/device/math_flags.h"
#include "core/kernels/cuda/cudnn/data_type.h"
#include "core/kernels/cuda/cudnn/plan_store.h"
#include "core/kernels/cuda/runtime/handles.h"
#include "core/kernels/cuda/runtime/real_runtime.h"
#include "core/kernels/lru_cache.h"
#include "core/tensor/dtype_types.h"

namespace dl::kernels::cuda {
namespace {

constexpr std::size_t kPlans = 512;
// The largest scratch memory of an algorithm.
constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;
// cuDNN proposes an algorithm once for each of up to three math types; forward has the most
// algorithms.
constexpr int kMostProposals = 3 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT;

struct Key {
  ConvShape shape;
  std::int32_t dtype;
  std::int32_t direction;
  std::int32_t tf32;
  std::int16_t benchmark;
  std::int16_t deterministic;
  friend bool operator==(const Key& a, const Key& b) noexcept {
    return std::memcmp(&a, &b, sizeof(Key)) == 0;  // has no padding: LruCache checks
  }
};

struct Choice {
  int algorithm;
  cudnnMathType_t math;
  std::size_t workspace;  // of the algorithm with this math type
};

struct Plan {
  Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor> x, y;
  Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor> weight;
  Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor> convolution;
  // The first one is used, and removed if it fails to run. Empty: cuDNN does not support the case.
  std::vector<Choice> choices;
};

struct ConvPlans {
  LruCache<Key, Plan> plans{kPlans};
};

struct Operands {
  const void* first;
  const void* second;
  void* result;
};

// False if cuDNN does not support the case.
bool is_supported(cudnnStatus_t status, const char* call) {
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  if (status != CUDNN_STATUS_SUCCESS) dl::cuda::throw_cudnn(status, call);
  return true;
}

// The math type to request. FMA_MATH is true f32; the default may be TF32.
cudnnMathType_t math_for(const Key& key) {
  if (static_cast<DType>(key.dtype) != DType::kF32) return CUDNN_TENSOR_OP_MATH;
  return key.tf32 != 0 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

// False if a tensor is too large: cuDNN supports up to 2^31 elements.
bool describe(const Key& key, Plan& plan) {
  const ConvShape& s = key.shape;
  const cudnnDataType_t type = dnn::data_type_of(static_cast<DType>(key.dtype), "conv2d");
  DL_CUDNN_CHECK(cudnnCreateTensorDescriptor(plan.x.out()));
  DL_CUDNN_CHECK(cudnnCreateTensorDescriptor(plan.y.out()));
  DL_CUDNN_CHECK(cudnnCreateFilterDescriptor(plan.weight.out()));
  DL_CUDNN_CHECK(cudnnCreateConvolutionDescriptor(plan.convolution.out()));
  DL_CUDNN_CHECK(cudnnSetConvolution2dDescriptor(plan.convolution.get(), s.pad_h, s.pad_w,
                                                 s.stride_h, s.stride_w, s.dilation_h, s.dilation_w,
                                                 CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  DL_CUDNN_CHECK(cudnnSetConvolutionGroupCount(plan.convolution.get(), s.groups));
  DL_CUDNN_CHECK(cudnnSetConvolutionMathType(plan.convolution.get(), math_for(key)));
  return is_supported(cudnnSetTensor4dDescriptor(plan.x.get(), CUDNN_TENSOR_NHWC, type, s.n, s.c_in,
                                                 s.h, s.w),
                      "cudnnSetTensor4dDescriptor") &&
         is_supported(cudnnSetTensor4dDescriptor(plan.y.get(), CUDNN_TENSOR_NHWC, type, s.n,
                                                 s.c_out, s.out_h, s.out_w),
                      "cudnnSetTensor4dDescriptor") &&
         is_supported(cudnnSetFilter4dDescriptor(plan.weight.get(), type, CUDNN_TENSOR_NHWC,
                                                 s.c_out, s.c_in / s.groups, s.kh, s.kw),
                      "cudnnSetFilter4dDescriptor");
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  DL_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

// Keeps the proposals of cuDNN (best first) that need little memory and are as deterministic as
// wanted.
template <typename Perf>
std::vector<Choice> choices_of(std::span<const Perf> proposals, const Key& key) {
  std::vector<Choice> choices;
  for (const Perf& proposal : proposals) {
    if (proposal.status != CUDNN_STATUS_SUCCESS || proposal.memory > kMostWorkspace ||
        (key.deterministic != 0 && proposal.determinism != CUDNN_DETERMINISTIC) ||
        (math_for(key) == CUDNN_FMA_MATH && proposal.mathType != CUDNN_FMA_MATH)) {
      continue;
    }
    choices.push_back({static_cast<int>(proposal.algo), proposal.mathType, proposal.memory});
  }
  return choices;
}

// The choices that an earlier run has found by timing.
std::vector<Choice> stored_choices(const std::string& shape) {
  const auto stored = dnn::stored_plan(shape);
  if (!stored) return {};
  std::istringstream text(*stored);
  std::vector<Choice> choices;
  int algorithm = 0;
  int math = 0;
  std::size_t workspace = 0;
  while (text >> algorithm >> math >> workspace) {
    choices.push_back({algorithm, static_cast<cudnnMathType_t>(math), workspace});
  }
  if (!choices.empty() && text.eof()) return choices;
  dnn::warn_of_unusable(shape);
  return {};
}

void store_choices(const std::string& shape, const std::vector<Choice>& choices) {
  std::string text;
  for (const Choice& choice : choices) {
    text += fmt::format("{} {} {}\n", choice.algorithm, static_cast<int>(choice.math),
                        choice.workspace);
  }
  dnn::store_plan(shape, text);
}

// All that the choice depends on, in one line.
std::string text_of(const Key& key) {
  const ConvShape& s = key.shape;
  return fmt::format(
      "convolution {} of type {}, tf32 {}, deterministic {}: images {} {} {} {}, filters {} {} {}, "
      "groups {}, padding {} {}, stride {} {}, dilation {} {}, results {} {}",
      key.direction, key.dtype, key.tf32, key.deterministic, s.n, s.c_in, s.h, s.w, s.c_out, s.kh,
      s.kw, s.groups, s.pad_h, s.pad_w, s.stride_h, s.stride_w, s.dilation_h, s.dilation_w, s.out_h,
      s.out_w);
}

// Timing runs on the operands and overwrites the result, which the caller then computes. It waits
// for the device, so a shape that first occurs in a capture uses the heuristic instead, unless an
// earlier run has timed it.
template <typename Perf, typename Ask, typename Time>
std::vector<Choice> choose(const Key& key, const Launch& launch, const Ask& ask, const Time& time) {
  const std::string shape = key.benchmark != 0 ? text_of(key) : std::string();
  if (key.benchmark != 0) {
    std::vector<Choice> stored = stored_choices(shape);
    if (!stored.empty()) return stored;
  }
  std::array<Perf, kMostProposals> found;
  int count = 0;
  const auto usable = [&] {
    return choices_of<Perf>(std::span(found).first(static_cast<std::size_t>(count)), key);
  };
  if (!is_supported(ask(found.data(), &count), "cudnnGetConvolution...Algorithm_v7")) return {};
  std::vector<Choice> guessed = usable();
  if (key.benchmark == 0 || guessed.empty() || is_captured(launch.stream())) return guessed;
  std::optional<Workspace> scratch;
  try {
    scratch.emplace(std::ranges::max(guessed, {}, &Choice::workspace).workspace, launch.stream());
  } catch (const Error& error) {  // the heuristic's choice may need less
    log::warning("conv2d: cuDNN's algorithms are not timed: {}", error.what());
    return guessed;
  }
  if (!is_supported(time(found.data(), &count, *scratch), "cudnnFindConvolution...AlgorithmEx")) {
    return guessed;
  }
  std::vector<Choice> timed = usable();
  if (timed.empty()) return guessed;
  store_choices(shape, timed);
  return timed;
}

cudnnStatus_t workspace_of(const Key& key, const Plan& p, const Choice& choice,
                           cudnnHandle_t handle, std::size_t* bytes) {
  switch (static_cast<ConvDirection>(key.direction)) {
    case ConvDirection::kForward:
      return cudnnGetConvolutionForwardWorkspaceSize(
          handle, p.x.get(), p.weight.get(), p.convolution.get(), p.y.get(),
          static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm), bytes);
    case ConvDirection::kBackwardData:
      return cudnnGetConvolutionBackwardDataWorkspaceSize(
          handle, p.weight.get(), p.y.get(), p.convolution.get(), p.x.get(),
          static_cast<cudnnConvolutionBwdDataAlgo_t>(choice.algorithm), bytes);
    case ConvDirection::kBackwardWeight:
      break;
  }
  return cudnnGetConvolutionBackwardFilterWorkspaceSize(
      handle, p.x.get(), p.y.get(), p.convolution.get(), p.weight.get(),
      static_cast<cudnnConvolutionBwdFilterAlgo_t>(choice.algorithm), bytes);
}

// A proposal's memory is an estimate: a grouped f16 convolution needs more (seen with cuDNN 9 on an
// H200). So query the size for each algorithm with its math type.
void size_workspaces(const Key& key, Plan& p, cudnnHandle_t handle) {
  std::erase_if(p.choices, [&](Choice& choice) {
    DL_CUDNN_CHECK(cudnnSetConvolutionMathType(p.convolution.get(), choice.math));
    std::size_t bytes = 0;
    if (!is_supported(workspace_of(key, p, choice, handle, &bytes),
                      "cudnnGetConvolution...WorkspaceSize")) {
      return true;
    }
    choice.workspace = std::max(choice.workspace, bytes);
    return choice.workspace > kMostWorkspace;
  });
}

// Call it after each change of the choices: sets the first choice's math type, or logs that there
// is none.
void settle(const Key& key, Plan& plan) {
  if (!plan.choices.empty()) {
    DL_CUDNN_CHECK(cudnnSetConvolutionMathType(plan.convolution.get(), plan.choices.front().math));
    return;
  }
  const ConvShape& s = key.shape;
  log::warning(
      "conv2d: cuDNN has no {}algorithm for images [{}, {}, {}, {}] and weights "
      "[{}, {}, {}, {}] of {}; a slow kernel of dlrun's own computes it",
      key.deterministic != 0 ? "deterministic " : "", s.n, s.c_in, s.h, s.w, s.c_out,
      s.c_in / s.groups, s.kh, s.kw, name_of(static_cast<DType>(key.dtype)));
}

std::unique_ptr<Plan> make_plan(const Key& key, cudnnHandle_t handle, const Operands& operands,
                                const Launch& launch) {
  const dl::cuda::RelaxedCapture relaxed;  // the heuristics may load code and allocate
  auto plan = std::make_unique<Plan>();
  Plan& p = *plan;
  if (!describe(key, p)) {
    settle(key, p);
    return plan;
  }
  switch (static_cast<ConvDirection>(key.direction)) {
    case ConvDirection::kForward:
      p.choices = choose<cudnnConvolutionFwdAlgoPerf_t>(
          key, launch,
          [&](auto* found, int* count) {
            return cudnnGetConvolutionForwardAlgorithm_v7(handle, p.x.get(), p.weight.get(),
                                                          p.convolution.get(), p.y.get(),
                                                          kMostProposals, count, found);
          },
          [&](auto* found, int* count, const Workspace& scratch) {
            return cudnnFindConvolutionForwardAlgorithmEx(
                handle, p.x.get(), operands.first, p.weight.get(), operands.second,
                p.convolution.get(), p.y.get(), operands.result, kMostProposals, count, found,
                scratch.data(), scratch.bytes());
          });
      break;
    case ConvDirection::kBackwardData:
      p.choices = choose<cudnnConvolutionBwdDataAlgoPerf_t>(
          key, launch,
          [&](auto* found, int* count) {
            return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p.weight.get(), p.y.get(),
                                                               p.convolution.get(), p.x.get(),
                                                               kMostProposals, count, found);
          },
          [&](auto* found, int* count, const Workspace& scratch) {
            return cudnnFindConvolutionBackwardDataAlgorithmEx(
                handle, p.weight.get(), operands.second, p.y.get(), operands.first,
                p.convolution.get(), p.x.get(), operands.result, kMostProposals, count, found,
                scratch.data(), scratch.bytes());
          });
      break;
    case ConvDirection::kBackwardWeight:
      p.choices = choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
          key, launch,
          [&](auto* found, int* count) {
            return cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                handle, p.x.get(), p.y.get(), p.convolution.get(), p.weight.get(), kMostProposals,
                count, found);
          },
          [&](auto* found, int* count, const Workspace& scratch) {
            return cudnnFindConvolutionBackwardFilterAlgorithmEx(
                handle, p.x.get(), operands.first, p.y.get(), operands.second, p.convolution.get(),
                p.weight.get(), operands.result, kMostProposals, count, found, scratch.data(),
                scratch.bytes());
          });
      break;
  }
  size_workspaces(key, p, handle);
  settle(key, p);
  return plan;
}

// Runs the plan's first choice. False if cuDNN rejects it.
bool run(const Key& key, const Plan& p, cudnnHandle_t handle, const Operands& operands,
         const Launch& launch) {
  const Choice& choice = p.choices.front();
  const Workspace scratch(choice.workspace, launch.stream());
  const auto& [first, second, result] = operands;
  const float one = 1;
  const float zero = 0;
  switch (static_cast<ConvDirection>(key.direction)) {
    case ConvDirection::kForward:
      return is_supported(
          cudnnConvolutionForward(handle, &one, p.x.get(), first, p.weight.get(), second,
                                  p.convolution.get(),
                                  static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm),
                                  scratch.data(), scratch.bytes(), &zero, p.y.get(), result),
          "cudnnConvolutionForward");
    case ConvDirection::kBackwardData:
      return is_supported(
          cudnnConvolutionBackwardData(handle, &one, p.weight.get(), second, p.y.get(), first,
                                       p.convolution.get(),
                                       static_cast<cudnnConvolutionBwdDataAlgo_t>(choice.algorithm),
                                       scratch.data(), scratch.bytes(), &zero, p.x.get(), result),
          "cudnnConvolutionBackwardData");
    case ConvDirection::kBackwardWeight:
      return is_supported(
          cudnnConvolutionBackwardFilter(
              handle, &one, p.x.get(), first, p.y.get(), second, p.convolution.get(),
              static_cast<cudnnConvolutionBwdFilterAlgo_t>(choice.algorithm), scratch.data(),
              scratch.bytes(), &zero, p.weight.get(), result),
          "cudnnConvolutionBackwardFilter");
  }
  return false;
}

}  // namespace

bool cudnn_conv(ConvDirection direction, const ConvShape& shape, DType dtype, const void* first,
                const void* second, void* result, const Launch& launch) {
  const dl::detail::MathFlags& flags = *dl::cuda::opener().math;
  constexpr auto relaxed = std::memory_order_relaxed;
  const Key key{
      .shape = shape,
      .dtype = static_cast<std::int32_t>(dtype),
      .direction = static_cast<std::int32_t>(direction),
      .tf32 = dtype == DType::kF32 && flags.cudnn_tf32.load(relaxed) ? 1 : 0,
      .benchmark = static_cast<std::int16_t>(flags.cudnn_benchmark.load(relaxed)),
      .deterministic = static_cast<std::int16_t>(flags.cudnn_deterministic.load(relaxed))};
  cudnnHandle_t handle = of_this_thread<DnnHandle>().get();
  DL_CUDNN_CHECK(cudnnSetStream(handle, launch.stream()));
  const Operands operands{first, second, result};
  Plan& plan = of_this_thread<ConvPlans>().plans.get(
      key, [&] { return make_plan(key, handle, operands, launch); });
  // A proposal may fail to run. A rejected one is never tried again, so that all later calls,
  // captured or not, compute the same.
  while (!plan.choices.empty()) {
    if (run(key, plan, handle, operands, launch)) return true;
    log::info("conv2d: cuDNN proposed algorithm {}, but cannot run it",
              plan.choices.front().algorithm);
    plan.choices.erase(plan.choices.begin());
    settle(key, plan);
  }
  return false;
}

}  // namespace dl::kernels::cuda
