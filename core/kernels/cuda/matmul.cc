#include "core/kernels/cuda/matmul.h"

#include <algorithm>
#include <bit>

#include "core/device/math_flags.h"
#include "core/kernels/cuda/bias_relu.h"
#include "core/kernels/cuda/handles.h"
#include "core/kernels/cuda/real_runtime.h"
#include "core/kernels/cuda/reduce.h"
#include "core/kernels/lru_cache.h"

namespace dl::kernels::cuda {
namespace {

constexpr std::size_t kPlans = 1024;
// Of scratch memory; what PyTorch lets cuBLASLt have.
constexpr std::size_t kHopperWorkspace = std::size_t{32} << 20;
constexpr std::size_t kWorkspace = std::size_t{4} << 20;

// A row-major matrix, or the transpose of one. cuBLASLt reads columns first, so that it sees each
// the other way around: D' = op(B') op(A'), all of them stored as they are.
struct Stored {
  explicit Stored(const Tensor& m)
      : data(m.data_ptr()), transposed(m.sizes()[1] != 1 && m.strides()[1] != 1) {
    const std::int64_t length = m.sizes()[transposed ? 0 : 1];
    const std::int64_t rows = m.sizes()[transposed ? 1 : 0];
    // The stride of a dimension of size 1 means nothing.
    stride = std::max<std::int64_t>({1, length, rows == 1 ? 1 : m.strides()[transposed ? 1 : 0]});
  }
  void* data;
  bool transposed;
  std::int64_t stride;
};

enum class Epilogue : std::int32_t { kNone, kBias, kRelu, kBiasRelu };

struct Key {
  std::int64_t m, n, k;
  std::int64_t lda, ldb, ldc;
  std::int32_t dtype;
  std::int32_t transposed;  // a: 1, b: 2
  std::int32_t epilogue;
  std::int32_t accumulate;
  std::int32_t tf32;
  std::int32_t alignment;  // of a, b and c: a byte each, as powers of two
  friend bool operator==(const Key&, const Key&) noexcept = default;
};

struct Plan {
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
  Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> left, right, result;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
};

struct Blas {
  Blas() { DL_CUBLAS_CHECK(cublasLtCreate(&handle)); }
  cublasLtHandle_t handle = nullptr;
  LruCache<Key, Plan> plans{kPlans};
};

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kF64:
      return CUDA_R_64F;
    default:
      refuse_dtype("matmul", dtype, "a floating dtype");
  }
}

// Bytes that the address is a multiple of, at most 256, as a power of two.
std::int32_t alignment_of(const void* data) {
  return std::min(8, std::countr_zero(reinterpret_cast<std::uintptr_t>(data) | 256U));
}

template <typename T>
void set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  DL_CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(plan.product.get(), attribute,
                                                 static_cast<const void*>(&value), sizeof(value)));
}

std::unique_ptr<Plan> make_plan(const Key& key, cublasLtHandle_t handle, const Launch& launch) {
  const auto dtype = static_cast<DType>(key.dtype);
  const cudaDataType_t type = type_of(dtype);
  const cudaDataType_t scale = dtype == DType::kF64 ? CUDA_R_64F : CUDA_R_32F;
  const cublasComputeType_t compute = dtype == DType::kF64 ? CUBLAS_COMPUTE_64F
                                      : key.tf32 != 0      ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                           : CUBLAS_COMPUTE_32F;
  auto plan = std::make_unique<Plan>();
  DL_CUBLAS_CHECK(cublasLtMatmulDescCreate(plan->product.out(), compute, scale));
  const bool a_transposed = (key.transposed & 1) != 0;
  const bool b_transposed = (key.transposed & 2) != 0;
  set(*plan, CUBLASLT_MATMUL_DESC_TRANSA, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(*plan, CUBLASLT_MATMUL_DESC_TRANSB, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  constexpr cublasLtEpilogue_t kEpilogues[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                               CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS};
  set(*plan, CUBLASLT_MATMUL_DESC_EPILOGUE, kEpilogues[key.epilogue]);

  const auto layout = [type](auto& owned, std::int64_t rows, std::int64_t columns,
                             std::int64_t stride) {
    DL_CUBLAS_CHECK(cublasLtMatrixLayoutCreate(owned.out(), type, static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(columns), stride));
  };
  layout(plan->left, b_transposed ? key.k : key.n, b_transposed ? key.n : key.k, key.ldb);
  layout(plan->right, a_transposed ? key.m : key.k, a_transposed ? key.k : key.m, key.lda);
  layout(plan->result, key.n, key.m, key.ldc);

  Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
  DL_CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(preference.out()));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    DL_CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(
        preference.get(), attribute, static_cast<const void*>(&value), sizeof(value)));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         launch.compute_capability() >= 90 ? kHopperWorkspace : kWorkspace);
  const auto bytes = [&](int operand) {
    return std::uint32_t{1} << (key.alignment >> (8 * operand) & 0xff);
  };
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(1));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(0));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(2));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(2));

  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  DL_CUBLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(
      handle, plan->product.get(), plan->left.get(), plan->right.get(), plan->result.get(),
      plan->result.get(), preference.get(), 1, &found, &count));
  DL_CHECK(count > 0, kNotImplemented,
           "matmul: cuBLASLt has no algorithm for [{}, {}] x [{}, {}] of {}", key.m, key.k, key.k,
           key.n, name_of(dtype));
  plan->algorithm = found.algo;
  plan->workspace = found.workspaceSize;
  return plan;
}

struct Product {
  const Stored left;
  const Stored right;
  const Tensor& c;
  bool accumulate = false;
  Epilogue epilogue = Epilogue::kNone;
  const void* bias = nullptr;
};

void multiply(const Product& p, std::int64_t k, const Launch& launch) {
  const DType dtype = p.c.dtype();
  const Stored result(p.c);
  const bool tf32 =
      dtype == DType::kF32 && dl::cuda::opener().math->matmul_tf32.load(std::memory_order_relaxed);
  const Key key{.m = p.c.sizes()[0],
                .n = p.c.sizes()[1],
                .k = k,
                .lda = p.left.stride,
                .ldb = p.right.stride,
                .ldc = result.stride,
                .dtype = static_cast<std::int32_t>(dtype),
                .transposed = (p.left.transposed ? 1 : 0) | (p.right.transposed ? 2 : 0),
                .epilogue = static_cast<std::int32_t>(p.epilogue),
                .accumulate = p.accumulate ? 1 : 0,
                .tf32 = tf32 ? 1 : 0,
                .alignment = alignment_of(p.left.data) | alignment_of(p.right.data) << 8 |
                             alignment_of(result.data) << 16};
  Blas& blas = of_this_thread<Blas>();
  const Plan& plan = blas.plans.get(key, [&] { return make_plan(key, blas.handle, launch); });
  if (p.bias != nullptr) set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  const Workspace workspace(plan.workspace, launch.stream());
  const double one64 = 1;
  const double keep64 = p.accumulate ? 1 : 0;
  const float one32 = 1;
  const float keep32 = p.accumulate ? 1 : 0;
  const bool wide = dtype == DType::kF64;
  const auto scalar = [wide](const double& f64, const float& f32) {
    return wide ? static_cast<const void*>(&f64) : &f32;
  };
  DL_CUBLAS_CHECK(cublasLtMatmul(blas.handle, plan.product.get(), scalar(one64, one32),
                                 p.right.data, plan.left.get(), p.left.data, plan.right.get(),
                                 scalar(keep64, keep32), result.data, plan.result.get(),
                                 result.data, plan.result.get(), &plan.algorithm, workspace.data(),
                                 plan.workspace, launch.stream()));
}

// Without terms there is nothing to ask cuBLASLt for.
void set_zero(const Tensor& c, const Launch& launch) {
  const auto width = size_of(c.dtype());
  const auto row = static_cast<std::size_t>(c.sizes()[1]) * width;
  const auto pitch =
      std::max(row, static_cast<std::size_t>(c.sizes()[0] == 1 ? 0 : c.strides()[0]) * width);
  DL_CUDA_CHECK(cudaMemset2DAsync(c.data_ptr(), pitch, 0, row,
                                  static_cast<std::size_t>(c.sizes()[0]), launch.stream()));
}

}  // namespace

void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& c) {
  if (c.numel() == 0) return;
  const Launch launch;
  const std::int64_t k = a.sizes()[1];
  if (k == 0) {
    if (!accumulate) set_zero(c, launch);
    return;
  }
  multiply({.left = Stored(a), .right = Stored(b), .c = c, .accumulate = accumulate}, k, launch);
}

void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, const Tensor& y) {
  if (y.numel() == 0) return;
  const Launch launch;
  const std::int64_t in = x.sizes()[1];
  const void* const bias_data = bias.defined() ? bias.data_ptr() : nullptr;
  Stored right(weight);  // of which the transpose is meant
  right.transposed = true;
  right.stride = std::max<std::int64_t>(1, in);
  // f64 has no epilogues.
  const bool fused = y.dtype() != DType::kF64 && in > 0;
  const Epilogue epilogue = !fused                 ? Epilogue::kNone
                            : bias_data == nullptr ? (relu ? Epilogue::kRelu : Epilogue::kNone)
                                                   : (relu ? Epilogue::kBiasRelu : Epilogue::kBias);
  if (in == 0) {
    set_zero(y, launch);
  } else {
    multiply({.left = Stored(x),
              .right = right,
              .c = y,
              .epilogue = epilogue,
              .bias = fused ? bias_data : nullptr},
             in, launch);
  }
  if (!fused) {
    bias_relu_launch(y.dtype(), y.data_ptr(), bias_data, relu, y.sizes()[0], y.sizes()[1],
                     launch.stream());
    DL_CUDA_LAUNCHED("bias_relu");
  }
}

void linear_backward_bias(const Tensor& dy, bool accumulate, const Tensor& dbias) {
  sum_columns(dy.data_ptr(), dy.sizes()[0], dy.sizes()[1], accumulate, dbias);
}

}  // namespace dl::kernels::cuda
