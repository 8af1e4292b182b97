#include "core/kernels/cuda/linear/product.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "core/base/log/log.h"
#include "core/device/math_flags.h"
#include "core/kernels/cuda/runtime/handles.h"
#include "core/kernels/cuda/runtime/real_runtime.h"
#include "core/kernels/lru_cache.h"

namespace dl::kernels::cuda {
namespace {

constexpr std::size_t kPlans = 1024;
// Bytes of scratch memory: PyTorch's limits for cuBLASLt.
constexpr std::size_t kHopperWorkspace = std::size_t{32} << 20;
constexpr std::size_t kWorkspace = std::size_t{4} << 20;

struct Key {
  std::int64_t m, n, k;
  std::int64_t lda, ldb, ldc;
  std::int64_t count, a_step, b_step, c_step;
  std::int32_t dtype;
  std::int32_t transposed;  // a: 1, b: 2
  std::int32_t epilogue;
  std::int32_t accumulate;
  std::int32_t tf32;
  std::int32_t alignment;  // of a, b and c: a byte each, as powers of two
  std::int32_t bias_alignment;
  std::int32_t second_alignment;
  friend bool operator==(const Key&, const Key&) noexcept = default;
};

struct Plan {
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
  Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> left, right, result;
  bool found = false;
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

cublasLtEpilogue_t library_name(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kGelu:
      return CUBLASLT_EPILOGUE_GELU;
    case Epilogue::kBiasGelu:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case Epilogue::kGeluKeep:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::kBiasGeluKeep:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kReluGradient:
      return CUBLASLT_EPILOGUE_DRELU;
    case Epilogue::kGeluGradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::kBiasGradient:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// log2 of the address's alignment in bytes, at most that of 256.
std::int32_t alignment_of(const void* data) {
  return std::min(8, std::countr_zero(reinterpret_cast<std::uintptr_t>(data) | 256U));
}

template <typename T>
void set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  DL_CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(plan.product.get(), attribute,
                                                 static_cast<const void*>(&value), sizeof(value)));
}

void set_pointers(const Plan& plan, const Product& p) {
  if (p.bias != nullptr) set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.second != nullptr) set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.second);
}

// Describes the product. cuBLASLt is column-major, so it sees each row-major matrix transposed: D'
// = op(B') op(A'), without any copies.
void describe(const Key& key, const Product& p, Plan& plan) {
  const auto dtype = static_cast<DType>(key.dtype);
  const cudaDataType_t type = type_of(dtype);
  const cudaDataType_t scale = dtype == DType::kF64 ? CUDA_R_64F : CUDA_R_32F;
  const cublasComputeType_t compute = dtype == DType::kF64 ? CUBLAS_COMPUTE_64F
                                      : key.tf32 != 0      ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                           : CUBLAS_COMPUTE_32F;
  DL_CUBLAS_CHECK(cublasLtMatmulDescCreate(plan.product.out(), compute, scale));
  const bool a_transposed = (key.transposed & 1) != 0;
  const bool b_transposed = (key.transposed & 2) != 0;
  set(plan, CUBLASLT_MATMUL_DESC_TRANSA, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan, CUBLASLT_MATMUL_DESC_TRANSB, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, library_name(p.epilogue));
  if (has_second_matrix(p.epilogue)) {
    set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, second_stride(p.epilogue, key.n));
  }
  set_pointers(plan, p);  // the heuristic uses their alignment

  const auto layout = [&](auto& owned, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                          std::int64_t step) {
    DL_CUBLAS_CHECK(cublasLtMatrixLayoutCreate(owned.out(), type, static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(columns), stride));
    if (key.count == 1) return;
    const auto set_batch = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      DL_CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(
          owned.get(), attribute, static_cast<const void*>(&value), sizeof(value)));
    };
    set_batch(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(key.count));
    set_batch(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
  };
  layout(plan.left, b_transposed ? key.k : key.n, b_transposed ? key.n : key.k, key.ldb,
         key.b_step);
  layout(plan.right, a_transposed ? key.m : key.k, a_transposed ? key.k : key.m, key.lda,
         key.a_step);
  layout(plan.result, key.n, key.m, key.ldc, key.c_step);
}

std::unique_ptr<Plan> make_plan(const Key& key, const Product& p, cublasLtHandle_t handle,
                                const Launch& launch) {
  auto plan = std::make_unique<Plan>();
  describe(key, p, *plan);
  Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
  DL_CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(preference.out()));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    DL_CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(
        preference.get(), attribute, static_cast<const void*>(&value), sizeof(value)));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         launch.compute_capability() >= 90 ? kHopperWorkspace : kWorkspace);
  // Partial sums are added in f32; the other schemes would round them to the result's dtype.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  const auto bytes = [&](int operand) {
    return std::uint32_t{1} << (key.alignment >> (8 * operand) & 0xff);
  };
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(1));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(0));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(2));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(2));

  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, plan->product.get(), plan->left.get(), plan->right.get(), plan->result.get(),
      plan->result.get(), preference.get(), 1, &found, &count);
  if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED) {
    dl::cuda::throw_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  }
  plan->found =
      status == CUBLAS_STATUS_SUCCESS && count > 0 && found.state == CUBLAS_STATUS_SUCCESS;
  plan->algorithm = found.algo;
  plan->workspace = found.workspaceSize;
  if (!plan->found) {
    DL_CHECK(p.epilogue != Epilogue::kNone, kNotImplemented,
             "matmul: cuBLASLt has no algorithm for [{}, {}] x [{}, {}] of {}", key.m, key.k, key.k,
             key.n, name_of(p.c.dtype()));
    log::debug("linear: cuBLASLt has no algorithm for [{}, {}] x [{}, {}] of {} with epilogue {}",
               key.m, key.k, key.k, key.n, name_of(p.c.dtype()),
               static_cast<int>(library_name(p.epilogue)));
  }
  return plan;
}

}  // namespace

Stored::Stored(void* memory, const Shape& sizes, const Strides& strides, std::size_t first_dim)
    : data(memory), transposed(sizes[first_dim + 1] != 1 && strides[first_dim + 1] != 1) {
  const std::int64_t length = sizes[first_dim + (transposed ? 0 : 1)];
  const std::size_t row_dim = first_dim + (transposed ? 1 : 0);
  // The stride of a dimension of size 1 is arbitrary.
  stride = std::max<std::int64_t>({1, length, sizes[row_dim] == 1 ? 1 : strides[row_dim]});
}

Stored::Stored(const Tensor& matrix)
    : Stored(matrix.data_ptr(), matrix.sizes(), matrix.strides(), 0) {}

Stored Stored::first_of(const Tensor& batch) {
  return {batch.data_ptr(), batch.sizes(), batch.strides(), 1};
}

bool multiply(const Product& p, std::int64_t k, const Launch& launch) {
  const DType dtype = p.c.dtype();
  const bool is_batch = p.c.sizes().size() == 3;
  const Stored result = is_batch ? Stored::first_of(p.c) : Stored(p.c);
  DL_CHECK(!result.transposed, kInternal, "matmul: a result that is stored by columns");
  const bool tf32 =
      dtype == DType::kF32 && dl::cuda::opener().math->matmul_tf32.load(std::memory_order_relaxed);
  const Key key{.m = p.c.sizes()[is_batch ? 1 : 0],
                .n = p.c.sizes()[is_batch ? 2 : 1],
                .k = k,
                .lda = p.left.stride,
                .ldb = p.right.stride,
                .ldc = result.stride,
                .count = p.batch.count,
                .a_step = p.batch.left,
                .b_step = p.batch.right,
                .c_step = p.batch.result,
                .dtype = static_cast<std::int32_t>(dtype),
                .transposed = (p.left.transposed ? 1 : 0) | (p.right.transposed ? 2 : 0),
                .epilogue = static_cast<std::int32_t>(p.epilogue),
                .accumulate = p.accumulate ? 1 : 0,
                .tf32 = tf32 ? 1 : 0,
                .alignment = alignment_of(p.left.data) | alignment_of(p.right.data) << 8 |
                             alignment_of(result.data) << 16,
                .bias_alignment = alignment_of(p.bias),
                .second_alignment = alignment_of(p.second)};
  Blas& blas = of_this_thread<Blas>();
  const Plan& plan = blas.plans.get(key, [&] { return make_plan(key, p, blas.handle, launch); });
  if (!plan.found) return false;
  set_pointers(plan, p);
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
  return true;
}

}  // namespace dl::kernels::cuda
