// cuDNN's convolutions on the host device: what dlrun calls of <cudnn.h>.
//
// 2-d convolutions of f16, bf16 and f32, summed in f32 and rounded once. Anything else that cuDNN
// could do is answered with NOT_SUPPORTED. Of the algorithms there are those that the documentation
// has for both layouts, and each one wants of its callers what the real one does:
//  - one that is not deterministic adds in another order each time;
//  - one with a workspace overwrites it, before and after it works;
//  - f32 with CUDNN_DEFAULT_MATH is TF32, as it is from sm_80 on.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/host_device/cudnn/convolution.h"
#include "tests/host_device/cudnn/cudnn.h"
#include "tests/host_device/runtime.h"
#include "tests/host_device/stream.h"

using namespace dl::host_device;

// The types that cuDNN's headers declare only.
struct cudnnTensorStruct : Array {};
struct cudnnFilterStruct : Array {};
struct cudnnConvolutionStruct : Convolution {};

namespace {

// The statuses that are given here.
struct Name {
  cudnnStatus_t status;
  const char* name;
};
constexpr Name kNames[] = {
    {CUDNN_STATUS_SUCCESS, "CUDNN_STATUS_SUCCESS"},
    {CUDNN_STATUS_NOT_INITIALIZED, "CUDNN_STATUS_NOT_INITIALIZED"},
    {CUDNN_STATUS_BAD_PARAM, "CUDNN_STATUS_BAD_PARAM"},
    {CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "CUDNN_STATUS_BAD_PARAM_NULL_POINTER"},
    {CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER"},
    {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"},
    {CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT"},
    {CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH"},
    {CUDNN_STATUS_NOT_SUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED"},
    {CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE"},
    {CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "CUDNN_STATUS_NOT_SUPPORTED_LAYOUT"},
    {CUDNN_STATUS_INTERNAL_ERROR, "CUDNN_STATUS_INTERNAL_ERROR"},
    {CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
     "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
    {CUDNN_STATUS_EXECUTION_FAILED_CUDART, "CUDNN_STATUS_EXECUTION_FAILED_CUDART"},
};

constinit thread_local const char* last_error = "";
constinit std::atomic<long> searches{0};

}  // namespace

void dl::host_device::count_search() {
  ++searches;
}

cudnnStatus_t dl::host_device::refuse(cudnnStatus_t status, const char* why) {
  last_error = why;
  return status;
}

namespace {

bool is_half_width(cudnnDataType_t type) {
  return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

bool is_supported(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT || is_half_width(type);
}

// Algorithms. Of each direction the heuristics' favourite comes first.

struct Algorithm {
  int number;
  bool exists;  // here
  bool deterministic;
  bool dilates;
  bool wants_workspace;
};

constexpr std::array kForward = {
    Algorithm{CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, true, true, false, true},
    Algorithm{CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, true, true, true, false},
    Algorithm{CUDNN_CONVOLUTION_FWD_ALGO_GEMM, false, true, false, true},
    Algorithm{CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, false, true, false, false},
    Algorithm{CUDNN_CONVOLUTION_FWD_ALGO_FFT, false, true, false, true},
    Algorithm{CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING, false, true, false, true},
    Algorithm{CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, false, true, false, false},
    Algorithm{CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, false, true, false, true},
};
constexpr std::array kBackwardData = {
    Algorithm{CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, true, false, true, false},
    Algorithm{CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, true, true, true, true},
    Algorithm{CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, false, true, false, true},
    Algorithm{CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING, false, true, false, true},
    Algorithm{CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, false, true, false, false},
    Algorithm{CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED, false, true, false, true},
};
constexpr std::array kBackwardFilter = {
    Algorithm{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, true, false, true, false},
    Algorithm{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, true, true, true, true},
    Algorithm{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, false, true, false, true},
    Algorithm{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3, false, false, true, true},
    Algorithm{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD, false, true, false, false},
    Algorithm{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED, false, true, false, true},
    Algorithm{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING, false, true, false, true},
};

std::span<const Algorithm> algorithms_of(Direction direction) {
  switch (direction) {
    case Direction::kForward:
      return kForward;
    case Direction::kBackwardData:
      return kBackwardData;
    default:
      return kBackwardFilter;
  }
}

bool dilates(const Problem& p) {
  return p.convolution.dilation[0] > 1 || p.convolution.dilation[1] > 1;
}

// Tensor cores take eight channels of half width at a time.
bool has_tensor_cores(const Problem& p) {
  return is_half_width(p.x.type) && p.inner() % 8 == 0 && p.outer() % 8 == 0;
}

bool allows_tensor_cores(cudnnMathType_t math) {
  return math == CUDNN_TENSOR_OP_MATH || math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
}

bool supports(const Problem& p, const Algorithm& algorithm) {
  return algorithm.exists && (algorithm.dilates || !dilates(p));
}

// More of it with tensor cores: who runs a proposal with another math type than its own notices.
std::size_t workspace_of(const Problem& p, const Algorithm& algorithm) {
  if (!algorithm.wants_workspace) return 0;
  const bool padded = has_tensor_cores(p) && allows_tensor_cores(p.convolution.math);
  return static_cast<std::size_t>(round_up(p.w.count() * (padded ? 8 : 4), 256));
}

// As the algorithms on tensor cores want it, of which a real cuDNN may take one.
bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

cudnnStatus_t check_memory(const Problem& p, const Memory& m) {
  const bool missing = m.result == nullptr ||
                       (p.direction != Direction::kBackwardData && m.x == nullptr) ||
                       (p.direction != Direction::kBackwardFilter && m.w == nullptr) ||
                       (p.direction != Direction::kForward && m.y == nullptr);
  if (missing) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a tensor's data are null");
  for (const void* const data : {m.x, m.w, m.y, static_cast<const void*>(m.result)}) {
    if (!is_aligned(data)) {
      return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                    "a tensor's data are not aligned to 16 bytes");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

// What every call is given.
struct Call {
  const cudnnContext* handle;
  Direction direction;
  const Array* x;
  const Array* w;
  const Convolution* convolution;
  const Array* y;
};

// Its descriptors fit each other, and are of what is computed here.
cudnnStatus_t make_problem(const Call& call, Problem& p) {
  const auto [handle, direction, x, w, convolution, y] = call;
  if (handle == nullptr || x == nullptr || w == nullptr || convolution == nullptr || y == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the handle or a descriptor is null");
  }
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device != handle->device) {
    return refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART,
                  "the handle was made for another device than the current one");
  }
  if (!x->is_set() || !w->is_set() || !y->is_set() || convolution->stride[0] == 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor was created, but never set");
  }
  const Convolution& c = *convolution;
  if (x->type != w->type || x->type != y->type) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the tensors are of different data types");
  }
  if (x->size[0] != y->size[0]) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                  "x and y hold different numbers of images");
  }
  if (x->size[1] != w->size[1] * c.groups) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                  "x's channels are not the filter's times the groups");
  }
  if (w->size[0] != y->size[1] || w->size[0] % c.groups != 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                  "y's channels are not the filters, or no multiple of the groups");
  }
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t room =
        x->size[d + 2] + 2 * c.pad[d] - (w->size[d + 2] - 1) * c.dilation[d] - 1;
    if (room < 0) {
      return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                    "the filter is larger than the padded image");
    }
    if (y->size[d + 2] != room / c.stride[d] + 1) {
      return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                    "y's height or width is not what the convolution gives");
    }
  }
  if (c.compute != CUDNN_DATA_FLOAT) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "computes in float only");
  }
  if (x->format != y->format || x->format != w->format) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "x, y and the filter lie differently");
  }
  p = {direction, *x, *w, *y, c};
  return CUDNN_STATUS_SUCCESS;
}

constinit std::atomic<unsigned> runs{0};

cudnnStatus_t start(cudaStream_t stream, const Problem& p, const Algorithm& algorithm,
                    const Memory& memory, const Scale& scale, void* workspace) {
  const std::size_t bytes = workspace_of(p, algorithm);
  const bool deterministic = algorithm.deterministic;
  const cudaError_t status = enqueue(stream, [p, memory, scale, workspace, bytes, deterministic] {
    const bool backwards = !deterministic && runs.fetch_add(1) % 2 == 1;
    constexpr int kNaN = 0xff;  // in every type
    if (bytes != 0) std::memset(workspace, kNaN, bytes);
    convolve(p, memory, scale, backwards);
    if (bytes != 0) std::memset(workspace, kNaN, bytes);
  });
  return status == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the stream refused the work");
}

cudnnStatus_t run(const Call& call, int number, const void* alpha, const void* beta,
                  const Memory& memory, void* workspace, std::size_t bytes) {
  Problem p{};
  if (const cudnnStatus_t status = make_problem(call, p)) return status;
  if (alpha == nullptr || beta == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "alpha or beta is null");
  }
  if (const cudnnStatus_t status = check_memory(p, memory)) return status;
  const std::span<const Algorithm> all = algorithms_of(p.direction);
  const auto algorithm = std::ranges::find(all, number, &Algorithm::number);
  if (algorithm == all.end()) return refuse(CUDNN_STATUS_BAD_PARAM, "there is no such algorithm");
  if (!supports(p, *algorithm)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the algorithm does not support this convolution");
  }
  const std::size_t wanted = workspace_of(p, *algorithm);
  if (bytes < wanted) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "the workspace is too small");
  }
  if (wanted != 0 && workspace == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the workspace is null");
  }
  const Scale scale{*static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
  return start(call.handle->stream, p, *algorithm, memory, scale, workspace);
}

// Proposals.

// The math types that proposals are made for. If tensor cores are allowed, also the type without
// them, which is better for short sums.
std::vector<cudnnMathType_t> math_types(const Problem& p) {
  if (!allows_tensor_cores(p.convolution.math)) return {p.convolution.math};
  if (!has_tensor_cores(p)) return {CUDNN_DEFAULT_MATH};
  if (p.window() < 128) return {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH};
  return {CUDNN_TENSOR_OP_MATH, CUDNN_DEFAULT_MATH};
}

// What succeeds first. judge(problem, algorithm, proposal) sets status and time of what is
// supported.
template <typename Perf, typename Judge>
std::vector<Perf> proposals(const Problem& p, const Judge& judge) {
  std::vector<Perf> good;
  std::vector<Perf> failed;
  for (const Algorithm& algorithm : algorithms_of(p.direction)) {
    for (const cudnnMathType_t math : math_types(p)) {
      Problem so = p;
      so.convolution.math = math;
      Perf perf{};
      perf.algo = static_cast<decltype(perf.algo)>(algorithm.number);
      perf.status = CUDNN_STATUS_NOT_SUPPORTED;
      perf.time = -1;
      perf.determinism = algorithm.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
      perf.mathType = math;
      if (supports(so, algorithm)) {
        perf.memory = workspace_of(so, algorithm);
        judge(so, algorithm, perf);
      }
      (perf.status == CUDNN_STATUS_SUCCESS ? good : failed).push_back(perf);
    }
  }
  good.insert(good.end(), failed.begin(), failed.end());
  return good;
}

template <typename Perf>
cudnnStatus_t check_request(int requested, const int* returned, const Perf* found) {
  if (returned == nullptr || found == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the place for proposals is null");
  }
  return requested >= 1 ? CUDNN_STATUS_SUCCESS
                        : refuse(CUDNN_STATUS_BAD_PARAM, "no proposal was asked for");
}

template <typename Perf>
void give(const std::vector<Perf>& all, int requested, int* returned, Perf* found) {
  *returned = std::min(requested, static_cast<int>(all.size()));
  std::copy_n(all.begin(), *returned, found);
}

template <typename Perf>
cudnnStatus_t guess(const Call& call, int requested, int* returned, Perf* found) {
  Problem p{};
  if (const cudnnStatus_t status = make_problem(call, p)) return status;
  if (const cudnnStatus_t status = check_request(requested, returned, found)) return status;
  const std::vector<Perf> all =
      proposals<Perf>(p, [](const Problem& so, const Algorithm&, Perf& perf) {
        // The estimate is too small for groups in f16, as cuDNN 9's was on an H200.
        if (so.convolution.groups > 1 && so.x.type == CUDNN_DATA_HALF) perf.memory /= 2;
        perf.status = CUDNN_STATUS_SUCCESS;
      });
  give(all, requested, returned, found);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace_size(const Call& call, int number, std::size_t* bytes) {
  Problem p{};
  if (const cudnnStatus_t status = make_problem(call, p)) return status;
  if (bytes == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the place for the size is null");
  }
  const std::span<const Algorithm> all = algorithms_of(p.direction);
  const auto algorithm = std::ranges::find(all, number, &Algorithm::number);
  if (algorithm == all.end()) return refuse(CUDNN_STATUS_BAD_PARAM, "there is no such algorithm");
  if (!supports(p, *algorithm)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the algorithm does not support this convolution");
  }
  *bytes = workspace_of(p, *algorithm);
  return CUDNN_STATUS_SUCCESS;
}

// Runs them all, on the caller's memory.
template <typename Perf>
cudnnStatus_t measure(const Call& call, const Memory& memory, int requested, int* returned,
                      Perf* found, void* workspace, std::size_t bytes) {
  Problem p{};
  if (const cudnnStatus_t status = make_problem(call, p)) return status;
  if (const cudnnStatus_t status = check_request(requested, returned, found)) return status;
  if (const cudnnStatus_t status = check_memory(p, memory)) return status;
  if (workspace == nullptr) bytes = 0;
  // Also while the stream is captured, when nothing can be waited for, and so nothing be measured.
  if (cudaStreamSynchronize(call.handle->stream) != cudaSuccess) {
    return refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the stream cannot be waited for");
  }
  count_search();
  using Clock = std::chrono::steady_clock;
  std::vector<Perf> all =
      proposals<Perf>(p, [&](const Problem& so, const Algorithm& algorithm, Perf& perf) {
        if (perf.memory > bytes) {
          perf.status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
          return;
        }
        const Clock::time_point begin = Clock::now();
        perf.status = start(call.handle->stream, so, algorithm, memory, {1, 0}, workspace);
        if (cudaStreamSynchronize(call.handle->stream) != cudaSuccess) {
          perf.status = CUDNN_STATUS_INTERNAL_ERROR;
        }
        perf.time = std::chrono::duration<float, std::milli>(Clock::now() - begin).count();
      });
  const auto failed = std::ranges::find_if(
      all, [](const Perf& perf) { return perf.status != CUDNN_STATUS_SUCCESS; });
  std::sort(all.begin(), failed, [](const Perf& a, const Perf& b) { return a.time < b.time; });
  give(all, requested, returned, found);
  return CUDNN_STATUS_SUCCESS;
}

// Descriptors.

cudnnStatus_t describe(Array* array, cudnnTensorFormat_t format, cudnnDataType_t type,
                       const std::array<std::int64_t, 4>& size) {
  if (array == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the descriptor is null");
  }
  if (format < CUDNN_TENSOR_NCHW || format > CUDNN_TENSOR_NCHW_VECT_C || type < CUDNN_DATA_FLOAT ||
      type > CUDNN_DATA_COMPLEX_FP64) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "there is no such format or data type");
  }
  if (std::ranges::min(size) < 1) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a size is less than 1");
  }
  constexpr std::int64_t kMostElements = std::int64_t{1} << 31;
  std::int64_t count = 1;
  for (const std::int64_t extent : size) {
    if (extent > kMostElements / count) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a tensor has more than 2^31 elements");
    }
    count *= extent;
  }
  if (format == CUDNN_TENSOR_NCHW_VECT_C) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "NCHW_VECT_C");
  }
  if (!is_supported(type)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "not of half, bfloat16 or float");
  }
  array->type = type;
  array->format = format;
  array->size = size;
  const auto [n, c, h, w] = size;
  if (format == CUDNN_TENSOR_NHWC) {
    array->stride = {h * w * c, 1, w * c, c};
  } else {
    array->stride = {c * h * w, h * w, w, 1};
  }
  return CUDNN_STATUS_SUCCESS;
}

template <typename Descriptor>
cudnnStatus_t create(Descriptor** descriptor) {
  if (descriptor == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the place for the descriptor is null");
  }
  *descriptor = new Descriptor;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

long dl_host_device_search_count() {
  return searches;
}

size_t cudnnGetVersion() {
  return CUDNN_VERSION;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  const auto found = std::ranges::find(kNames, status, &Name::status);
  return found == std::end(kNames) ? "CUDNN_UNKNOWN_STATUS" : found->name;
}

void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (message == nullptr || max_size == 0) return;
  const std::size_t length = std::min(std::strlen(last_error), max_size - 1);
  std::memcpy(message, last_error, length);
  message[length] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (handle == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the place for the handle is null");
  }
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    return refuse(CUDNN_STATUS_NOT_INITIALIZED, "there is no device");
  }
  if (is_forbidden()) {  // it allocates
    return refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the thread captures");
  }
  *handle = new cudnnContext{device};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the handle is null");
  }
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor) {
  return create(descriptor);
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor,
                                         cudnnTensorFormat_t format, cudnnDataType_t type, int n,
                                         int c, int h, int w) {
  return describe(descriptor, format, type, {n, c, h, w});
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type,
                                         int dims, const int sizes[], const int steps[]) {
  if (descriptor == nullptr || dims < 3 || dims > 4 || !is_supported(type)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor of no form that the host device knows");
  }
  descriptor->type = type;
  for (int d = 0; d < 4; ++d) {
    const auto at = static_cast<std::size_t>(d);
    descriptor->size[at] = d < dims ? sizes[d] : 1;
    descriptor->stride[at] = d < dims ? steps[d] : 1;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* descriptor) {
  return create(descriptor);
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return describe(descriptor, format, type, {k, c, h, w});
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* descriptor) {
  return create(descriptor);
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (descriptor == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the descriptor is null");
  }
  if (pad_h < 0 || pad_w < 0) return refuse(CUDNN_STATUS_BAD_PARAM, "the padding is negative");
  if (stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a stride or a dilation is less than 1");
  }
  if ((mode != CUDNN_CONVOLUTION && mode != CUDNN_CROSS_CORRELATION) ||
      compute < CUDNN_DATA_FLOAT || compute > CUDNN_DATA_COMPLEX_FP64) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "there is no such mode or data type");
  }
  descriptor->pad = {pad_h, pad_w};
  descriptor->stride = {stride_h, stride_w};
  descriptor->dilation = {dilation_h, dilation_w};
  descriptor->mode = mode;
  descriptor->compute = compute;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int groups) {
  if (descriptor == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the descriptor is null");
  }
  if (groups < 1) return refuse(CUDNN_STATUS_BAD_PARAM, "there is less than one group");
  descriptor->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor,
                                          cudnnMathType_t math) {
  if (descriptor == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the descriptor is null");
  }
  if (math < CUDNN_DEFAULT_MATH || math > CUDNN_FMA_MATH) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "there is no such math type");
  }
  descriptor->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    const int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* found) {
  return guess({handle, Direction::kForward, x, w, convolution, y}, requested, returned, found);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    const int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* found) {
  return guess({handle, Direction::kBackwardData, dx, w, convolution, dy}, requested, returned,
               found);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    const int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* found) {
  return guess({handle, Direction::kBackwardFilter, x, dw, convolution, dy}, requested, returned,
               found);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  return workspace_size({handle, Direction::kForward, x, w, convolution, y}, algorithm, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  return workspace_size({handle, Direction::kBackwardData, dx, w, convolution, dy}, algorithm,
                        bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  return workspace_size({handle, Direction::kBackwardFilter, x, dw, convolution, dy}, algorithm,
                        bytes);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const void* x_data,
    const cudnnFilterDescriptor_t w, const void* w_data,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y, void* y_data,
    const int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* found, void* workspace,
    size_t bytes) {
  return measure({handle, Direction::kForward, x, w, convolution, y},
                 {x_data, w_data, nullptr, y_data}, requested, returned, found, workspace, bytes);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const void* w_data,
    const cudnnTensorDescriptor_t dy, const void* dy_data,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx, void* dx_data,
    const int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* found, void* workspace,
    size_t bytes) {
  return measure({handle, Direction::kBackwardData, dx, w, convolution, dy},
                 {nullptr, w_data, dy_data, dx_data}, requested, returned, found, workspace, bytes);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const void* x_data,
    const cudnnTensorDescriptor_t dy, const void* dy_data,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw, void* dw_data,
    const int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* found, void* workspace,
    size_t bytes) {
  return measure({handle, Direction::kBackwardFilter, x, dw, convolution, dy},
                 {x_data, nullptr, dy_data, dw_data}, requested, returned, found, workspace, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t x, const void* x_data,
                                      const cudnnFilterDescriptor_t w, const void* w_data,
                                      const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      size_t bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y, void* y_data) {
  return run({handle, Direction::kForward, x, w, convolution, y}, algorithm, alpha, beta,
             {x_data, w_data, nullptr, y_data}, workspace, bytes);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w, const void* w_data,
                                           const cudnnTensorDescriptor_t dy, const void* dy_data,
                                           const cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           size_t bytes, const void* beta,
                                           const cudnnTensorDescriptor_t dx, void* dx_data) {
  return run({handle, Direction::kBackwardData, dx, w, convolution, dy}, algorithm, alpha, beta,
             {nullptr, w_data, dy_data, dx_data}, workspace, bytes);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x, const void* x_data,
                                             const cudnnTensorDescriptor_t dy, const void* dy_data,
                                             const cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* workspace, size_t bytes, const void* beta,
                                             const cudnnFilterDescriptor_t dw, void* dw_data) {
  return run({handle, Direction::kBackwardFilter, x, dw, convolution, dy}, algorithm, alpha, beta,
             {x_data, nullptr, dy_data, dw_data}, workspace, bytes);
}

}  // extern "C"
