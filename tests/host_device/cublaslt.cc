// cuBLASLt on the host device: column-major products of f16, bf16, f32 and f64 with the epilogues
// that dlrun asks for.
//
// What is refused, with which status, is from cublasLt.h, from setters called without a device in
// cuBLASLt 13.1, from what was measured in 13.0 on an RTX 3060, and from the limits that NVIDIA's
// nvmath-python works around. Two of those facts are easily taken for errors here: a ReLU makes NaN
// zero, and its mask holds what is not below zero, zero included.
//
// Sums are f32 (of f64: f64), in the order of k. TF32 rounds the operands first, so that a test
// sees who allowed it.
#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "core/tensor/half.h"
#include "tests/host_device/runtime.h"
#include "tests/host_device/stream.h"

struct cublasLtContext {
  int device;
};

namespace {

// Rows of the result that are summed at a time, in the workspace: it must live as long as the
// stream uses it.
constexpr std::int64_t kPanel = 1024;
constexpr std::size_t kWorkspace = kPanel * sizeof(double);
// No kernel loads more at once; the preferences' default asks for more.
constexpr std::uint64_t kStrictestAlignment = 16;
constexpr std::int64_t kMaskUnit = 128;  // of the mask's leading dimension, in bits
constexpr std::int64_t kGeluUnit = 8;    // of that of what GELU is applied to, in elements

struct Description : cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t op_a = CUBLAS_OP_N;
  std::int32_t op_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_stride = 0;
};

struct Layout : cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows;
  std::uint64_t columns;
  std::int64_t stride;
  std::int32_t count = 1;
  std::int64_t step = 0;  // from a matrix of the batch to the next
};

struct Preference : cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;  // nothing is split here
  std::uint32_t alignment_a = 256;
  std::uint32_t alignment_b = 256;
  std::uint32_t alignment_c = 256;
  std::uint32_t alignment_d = 256;
};

// What an epilogue does with a sum, in this order.
struct Steps {
  bool adds_bias = false;
  bool is_relu = false;
  bool is_gelu = false;
  bool keeps = false;  // the ReLU's mask, or what GELU is applied to
  bool is_relu_slope = false;
  bool is_gelu_slope = false;
  bool sums_b = false;

  bool has_mask() const { return (is_relu && keeps) || is_relu_slope; }
  bool has_gelu_input() const { return (is_gelu && keeps) || is_gelu_slope; }
};

std::optional<Steps> steps_of(std::uint32_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return Steps{};
    case CUBLASLT_EPILOGUE_BIAS:
      return Steps{.adds_bias = true};
    case CUBLASLT_EPILOGUE_RELU:
      return Steps{.is_relu = true};
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      return Steps{.adds_bias = true, .is_relu = true};
    case CUBLASLT_EPILOGUE_RELU_AUX:
      return Steps{.is_relu = true, .keeps = true};
    case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
      return Steps{.adds_bias = true, .is_relu = true, .keeps = true};
    case CUBLASLT_EPILOGUE_GELU:
      return Steps{.is_gelu = true};
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      return Steps{.adds_bias = true, .is_gelu = true};
    case CUBLASLT_EPILOGUE_GELU_AUX:
      return Steps{.is_gelu = true, .keeps = true};
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return Steps{.adds_bias = true, .is_gelu = true, .keeps = true};
    case CUBLASLT_EPILOGUE_DRELU:
      return Steps{.is_relu_slope = true};
    case CUBLASLT_EPILOGUE_DGELU:
      return Steps{.is_gelu_slope = true};
    case CUBLASLT_EPILOGUE_BGRADB:
      return Steps{.sums_b = true};
    default:
      return std::nullopt;
  }
}

// D[m, n] = epilogue(alpha op(A)[m, k] op(B)[k, n] + beta C[m, n]).
struct Problem {
  cudaDataType_t type;
  bool tf32;
  bool a_transposed, b_transposed;
  std::int64_t m, n, k;
  std::int64_t lda, ldb, ldc, ldd;
  std::int64_t count, step_a, step_b, step_c, step_d;
  std::uint32_t epilogue;
  Steps steps;
  std::int64_t aux_stride;
};

struct Job {
  Problem problem;
  double alpha, beta;  // as the scale type holds them
  const void *a, *b, *c;
  void* d;
  void* bias;
  void* aux;
  void* workspace;
};

std::uint64_t size_of(cudaDataType_t type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

bool is_supported(cudaDataType_t type, cublasComputeType_t compute, cudaDataType_t scale) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F;
    case CUDA_R_32F:
      return (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32) &&
             scale == CUDA_R_32F;
    case CUDA_R_64F:
      return compute == CUBLAS_COMPUTE_64F && scale == CUDA_R_64F;
    default:
      return false;
  }
}

cublasStatus_t check_layout(const Layout& layout) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (layout.rows == 0 || layout.columns == 0 || layout.count < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (layout.rows > kMost || layout.columns > kMost) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (layout.stride < static_cast<std::int64_t>(layout.rows)) return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_epilogue(const Problem& p, const void* aux) {
  const Steps& steps = p.steps;
  // No algorithm of a batch with an epilogue is asked for.
  if (p.count > 1 && p.epilogue != CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_NOT_SUPPORTED;
  // cuBLASLt's documentation has no epilogues for f64, nvmath-python none for the sums of one
  // column and no slope for a product of one term.
  if (p.type == CUDA_R_64F && p.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (steps.sums_b && (!p.b_transposed || p.n == 1)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if ((steps.is_relu_slope || steps.is_gelu_slope) && p.k == 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  // Without a pointer it is the product that refuses.
  const bool has_aux = steps.has_mask() || steps.has_gelu_input();
  const std::int64_t unit = steps.has_mask() ? kMaskUnit : kGeluUnit;
  if (has_aux && aux != nullptr && (p.aux_stride < p.m || p.aux_stride % unit != 0)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

// What the descriptors say together; refuses what neither the heuristic nor the product takes.
cublasStatus_t read(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a_layout,
                    cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout,
                    cublasLtMatrixLayout_t d_layout, Problem& problem) {
  if (desc == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  for (const auto* layout : {a_layout, b_layout, c_layout, d_layout}) {
    if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    const cublasStatus_t status = check_layout(*static_cast<const Layout*>(layout));
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  const auto& product = *static_cast<const Description*>(desc);
  const auto& a = *static_cast<const Layout*>(a_layout);
  const auto& b = *static_cast<const Layout*>(b_layout);
  const auto& c = *static_cast<const Layout*>(c_layout);
  const auto& d = *static_cast<const Layout*>(d_layout);
  const auto is_known = [](std::int32_t op) { return op == CUBLAS_OP_N || op == CUBLAS_OP_T; };
  const std::optional<Steps> steps = steps_of(product.epilogue);
  if (!is_known(product.op_a) || !is_known(product.op_b) || !steps || a.type != d.type ||
      b.type != d.type || c.type != d.type ||
      !is_supported(d.type, product.compute, product.scale)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool a_transposed = product.op_a == CUBLAS_OP_T;
  const bool b_transposed = product.op_b == CUBLAS_OP_T;
  const std::uint64_t k = a_transposed ? a.rows : a.columns;
  if ((a_transposed ? a.columns : a.rows) != d.rows || (b_transposed ? b.columns : b.rows) != k ||
      (b_transposed ? b.rows : b.columns) != d.columns || c.rows != d.rows ||
      c.columns != d.columns || a.count != d.count || b.count != d.count || c.count != d.count) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  problem = {.type = d.type,
             .tf32 = product.compute == CUBLAS_COMPUTE_32F_FAST_TF32,
             .a_transposed = a_transposed,
             .b_transposed = b_transposed,
             .m = static_cast<std::int64_t>(d.rows),
             .n = static_cast<std::int64_t>(d.columns),
             .k = static_cast<std::int64_t>(k),
             .lda = a.stride,
             .ldb = b.stride,
             .ldc = c.stride,
             .ldd = d.stride,
             .count = d.count,
             .step_a = a.step,
             .step_b = b.step,
             .step_c = c.step,
             .step_d = d.step,
             .epilogue = product.epilogue,
             .steps = *steps,
             .aux_stride = product.aux_stride};
  return check_epilogue(problem, product.aux);
}

// What an algorithm was found for; it is used for nothing else.
struct Algorithm {
  std::uint64_t problem;
  std::uint64_t a, b, c, d, bias, aux;  // the alignments that it counts on, in bytes
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

// FNV-1a of what the problem is.
std::uint64_t fingerprint(const Problem& p) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::int64_t value :
       {std::int64_t{p.type}, std::int64_t{p.tf32}, std::int64_t{p.a_transposed},
        std::int64_t{p.b_transposed}, p.m, p.n, p.k, p.lda, p.ldb, p.ldc, p.ldd, p.count, p.step_a,
        p.step_b, p.step_c, p.step_d, std::int64_t{p.epilogue}, p.aux_stride}) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3U;
  }
  return hash;
}

std::uint64_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | kStrictestAlignment;
  return std::uint64_t{1} << std::countr_zero(address);
}

bool is_aligned(const void* data, std::uint64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

// To the 10 bits of mantissa that TF32 has, to nearest, ties away, as cvt.rna.tf32.f32 does.
float rounded_to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000U) & ~0x1fffU);
}

template <typename Sum, typename T>
Sum operand(T x, bool tf32) {
  if constexpr (std::is_same_v<T, float>) return tf32 ? rounded_to_tf32(x) : x;
  return static_cast<Sum>(x);
}

constexpr double kSqrt2OverPi = 0.7978845608028654;
constexpr double kCubic = 0.044715;

template <typename Sum>
Sum gelu(Sum x) {
  const Sum inner = Sum(kSqrt2OverPi) * (x + Sum(kCubic) * x * x * x);
  return Sum(0.5) * x * (1 + std::tanh(inner));
}

template <typename Sum>
Sum gelu_slope(Sum x) {
  const Sum t = std::tanh(Sum(kSqrt2OverPi) * (x + Sum(kCubic) * x * x * x));
  const Sum inner_slope = Sum(kSqrt2OverPi) * (1 + Sum(3 * kCubic) * x * x);
  return Sum(0.5) * (1 + t + x * (1 - t * t) * inner_slope);
}

// A mask's first row is the lowest bit of the first byte. The bits past the last row stay what
// they are.
bool bit_of(const void* mask, std::int64_t at) {
  return (static_cast<const std::uint8_t*>(mask)[at / 8] >> (at % 8) & 1) != 0;
}
void put_bit(void* mask, std::int64_t at, bool value) {
  auto& byte = static_cast<std::uint8_t*>(mask)[at / 8];
  const auto bit = 1U << (at % 8);
  byte = static_cast<std::uint8_t>(value ? byte | bit : byte & ~bit);
}

// From the sum at [i, j] to the result.
template <typename T, typename Sum>
void finish(const Job& job, std::int64_t i, std::int64_t j, Sum sum) {
  const Problem& p = job.problem;
  Sum value = static_cast<Sum>(job.alpha) * sum;
  if (job.beta != 0) {  // else C is not read, whatever it holds
    value +=
        static_cast<Sum>(job.beta) * static_cast<Sum>(static_cast<const T*>(job.c)[i + j * p.ldc]);
  }
  if (p.steps.adds_bias) value += static_cast<Sum>(static_cast<const T*>(job.bias)[i]);

  const std::int64_t at = i + j * p.aux_stride;
  if (p.steps.is_relu) {
    if (p.steps.keeps) put_bit(job.aux, at, value >= 0);
    value = value > 0 ? value : Sum(0);
  }
  if (p.steps.is_gelu) {
    if (p.steps.keeps) static_cast<T*>(job.aux)[at] = static_cast<T>(value);
    value = gelu(value);
  }
  if (p.steps.is_relu_slope && !bit_of(job.aux, at)) value = 0;
  if (p.steps.is_gelu_slope) value *= gelu_slope(static_cast<Sum>(static_cast<T*>(job.aux)[at]));
  static_cast<T*>(job.d)[i + j * p.ldd] = static_cast<T>(value);
}

template <typename T, typename Sum>
void multiply_one(const Job& job) {
  const Problem& p = job.problem;
  const auto* const a = static_cast<const T*>(job.a);
  const auto* const b = static_cast<const T*>(job.b);
  std::vector<Sum> left(static_cast<std::size_t>(p.m * p.k));  // op(A), by columns
  for (std::int64_t l = 0; l < p.k; ++l) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      left[static_cast<std::size_t>(i + l * p.m)] =
          operand<Sum>(a[p.a_transposed ? l + i * p.lda : i + l * p.lda], p.tf32);
    }
  }
  std::vector<Sum> right(static_cast<std::size_t>(p.k));  // a column of op(B)
  for (std::int64_t j = 0; j < p.n; ++j) {
    for (std::int64_t l = 0; l < p.k; ++l) {
      right[static_cast<std::size_t>(l)] =
          operand<Sum>(b[p.b_transposed ? j + l * p.ldb : l + j * p.ldb], p.tf32);
    }
    for (std::int64_t first = 0; first < p.m; first += kPanel) {
      const std::int64_t rows = std::min(kPanel, p.m - first);
      const std::span<Sum> sums(static_cast<Sum*>(job.workspace), static_cast<std::size_t>(rows));
      std::ranges::fill(sums, Sum(0));
      const Sum* column = left.data() + first;
      for (const Sum factor : right) {
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += column[i] * factor;
        column += p.m;
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        finish<T>(job, first + i, j, sums[static_cast<std::size_t>(i)]);
      }
    }
    if (p.steps.sums_b) {
      Sum sum = 0;
      for (const Sum value : right) sum += value;
      static_cast<T*>(job.bias)[j] = static_cast<T>(sum);
    }
  }
}

template <typename T, typename Sum>
void multiply(Job job) {
  const Problem& p = job.problem;
  for (std::int64_t i = 0; i < p.count; ++i) {
    multiply_one<T, Sum>(job);
    job.a = static_cast<const T*>(job.a) + p.step_a;
    job.b = static_cast<const T*>(job.b) + p.step_b;
    job.c = static_cast<const T*>(job.c) + p.step_c;
    job.d = static_cast<T*>(job.d) + p.step_d;
  }
}

void run(const Job& job) {
  switch (job.problem.type) {
    case CUDA_R_16F:
      return multiply<dl::Half, float>(job);
    case CUDA_R_16BF:
      return multiply<dl::BFloat16, float>(job);
    case CUDA_R_32F:
      return multiply<float, float>(job);
    default:
      return multiply<double, double>(job);
  }
}

// What only the product asks for: the pointers.
cublasStatus_t check_pointers(const Job& job, const Algorithm& found) {
  const Steps& steps = job.problem.steps;
  if (job.a == nullptr || job.b == nullptr || job.d == nullptr ||
      (job.c == nullptr && job.beta != 0)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (job.c == job.d && job.problem.ldc != job.problem.ldd) return CUBLAS_STATUS_INVALID_VALUE;
  if (job.bias == nullptr && (steps.adds_bias || steps.sums_b)) return CUBLAS_STATUS_INVALID_VALUE;
  if (job.aux == nullptr && steps.keeps) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (job.aux == nullptr && (steps.is_relu_slope || steps.is_gelu_slope)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool are_aligned = is_aligned(job.a, found.a) && is_aligned(job.b, found.b) &&
                           is_aligned(job.c, found.c) && is_aligned(job.d, found.d) &&
                           is_aligned(job.bias, found.bias) && is_aligned(job.aux, found.aux);
  return are_aligned ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// A handle is of the device that was active when it was made.
cublasStatus_t check_handle(cublasLtHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  return device == handle->device ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

template <typename T>
cublasStatus_t set(T& to, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(static_cast<void*>(&to), value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t give(auto* to, T* made) {
  *to = made;
  return made == nullptr ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (dl::host_device::is_forbidden()) return CUBLAS_STATUS_ALLOC_FAILED;  // it allocates
  return give(handle, new (std::nothrow) cublasLtContext{device});
}

std::size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unrecognized status";
}

// Like the library, makers and setters accept any value; it is checked at its use.

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (desc == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  return give(desc, new (std::nothrow) Description{{}, compute, scale});
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete static_cast<Description*>(desc);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  if (desc == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto& product = *static_cast<Description*>(desc);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(product.op_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(product.op_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(product.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(product.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(product.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(product.aux_stride, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t stride) {
  if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  return give(layout, new (std::nothrow) Layout{{}, type, rows, columns, stride});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete static_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto& matrix = *static_cast<Layout*>(layout);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(matrix.count, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(matrix.step, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  if (preference == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  return give(preference, new (std::nothrow) Preference{});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete static_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (preference == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto& wanted = *static_cast<Preference*>(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(wanted.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(wanted.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(wanted.alignment_a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(wanted.alignment_b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(wanted.alignment_c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(wanted.alignment_d, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  if (const auto status = check_handle(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (preference == nullptr || wanted <= 0 || results == nullptr || count == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *count = 0;
  Problem problem{};
  if (const auto status = read(desc, a, b, c, d, problem); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  const auto& limits = *static_cast<const Preference*>(preference);
  const std::uint64_t width = size_of(problem.type);
  const bool are_aligned = std::ranges::all_of(
      std::initializer_list<std::uint64_t>{limits.alignment_a, limits.alignment_b,
                                           limits.alignment_c, limits.alignment_d},
      [width](std::uint64_t bytes) { return std::has_single_bit(bytes) && bytes >= width; });
  if (limits.workspace < kWorkspace || !are_aligned) return CUBLAS_STATUS_NOT_SUPPORTED;

  const auto& product = *static_cast<const Description*>(desc);
  const auto capped = [](std::uint64_t bytes) { return std::min(bytes, kStrictestAlignment); };
  const Algorithm found{.problem = fingerprint(problem),
                        .a = capped(limits.alignment_a),
                        .b = capped(limits.alignment_b),
                        .c = capped(limits.alignment_c),
                        .d = capped(limits.alignment_d),
                        .bias = std::max(alignment_of(product.bias), width),
                        .aux = std::max(alignment_of(product.aux), width)};
  results[0] = {};
  std::memcpy(&results[0].algo, &found, sizeof(found));
  results[0].workspaceSize = kWorkspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  if (const auto status = check_handle(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  Problem problem{};
  if (const auto status = read(desc, a_layout, b_layout, c_layout, d_layout, problem);
      status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  if (alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm == nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;  // the heuristic is to be asked
  Algorithm found{};
  std::memcpy(&found, algorithm, sizeof(found));
  if (found.problem != fingerprint(problem)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (workspace == nullptr || workspace_bytes < kWorkspace ||
      !is_aligned(workspace, kStrictestAlignment)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto scalar = [&problem](const void* at) {
    return problem.type == CUDA_R_64F ? *static_cast<const double*>(at)
                                      : double{*static_cast<const float*>(at)};
  };
  const auto& product = *static_cast<const Description*>(desc);
  const Job job{.problem = problem,
                .alpha = scalar(alpha),
                .beta = scalar(beta),
                .a = a,
                .b = b,
                .c = c,
                .d = d,
                .bias = product.bias,
                .aux = product.aux,
                .workspace = workspace};
  if (const auto status = check_pointers(job, found); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  const cudaError_t error = dl::host_device::enqueue(stream, [job] { run(job); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
