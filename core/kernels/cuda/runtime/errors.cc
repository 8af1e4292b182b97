#include "core/kernels/cuda/runtime/errors.h"

#include "core/base/error.h"
#include "core/tensor/tensor.h"

namespace dl {

// core defines it in tensor.cc, which is not in the module.
void refuse_dtype(std::string_view op, DType dtype, std::string_view wanted) {
  throw_error(ErrorKind::kDType, "{}: {} is not supported on cuda; wanted {}", op, name_of(dtype),
              wanted);
}

}  // namespace dl

namespace dl::cuda {
namespace {

// The function's name, before the parenthesis.
std::string_view name_of_call(const char* call) {
  const std::string_view text(call);
  return text.substr(0, text.find('('));
}

// " in relu(f32[2, 3] on cuda:0, ...)"; empty if no operation runs.
std::string where() {
  const RunningOp& op = running_op();
  if (op.name == nullptr) return {};
  std::string text = std::string(" in ") + op.name + "(";
  op.describe(op.arguments, text);
  return text + ")";
}

bool is_of_a_kernel(cudaError_t error) noexcept {
  return error == cudaErrorIllegalAddress || error == cudaErrorMisalignedAddress ||
         error == cudaErrorLaunchFailure || error == cudaErrorAssert ||
         error == cudaErrorIllegalInstruction;
}

}  // namespace

RunningOp& running_op() noexcept {
  constinit thread_local RunningOp op;
  return op;
}

void throw_cuda(cudaError_t error, const char* call) {
  cudaGetLastError();  // clears the error, so that the next check does not report it again
  throw_error(ErrorKind::kInternal, "{}: {} ({}){}{}", name_of_call(call),
              cudaGetErrorString(error), cudaGetErrorName(error), where(),
              is_of_a_kernel(error) ? "; an earlier kernel failed, and this process can use the "
                                      "device no more: CUDA_LAUNCH_BLOCKING=1 shows which it was"
                                    : "");
}

void throw_cublas(cublasStatus_t status, const char* call) {
  throw_error(ErrorKind::kInternal, "{}: {}{}", name_of_call(call), cublasLtGetStatusName(status),
              where());
}

void throw_cudnn(cudnnStatus_t status, const char* call) {
  char more[512] = "";
  cudnnGetLastErrorString(more, sizeof more);
  throw_error(ErrorKind::kInternal, "{}: {}{}{}{}", name_of_call(call), cudnnGetErrorString(status),
              more[0] != '\0' ? ": " : "", more, where());
}

}  // namespace dl::cuda
