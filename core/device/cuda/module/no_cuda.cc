// Replaces open.cc in a build without CUDA.
#include "core/base/error.h"
#include "core/device/cuda/module/module.h"

namespace dl::cuda::detail {

const Module& open_module() {
  throw_error(ErrorKind::kNotImplemented,
              "this build of dlrun has no CUDA; build it where nvcc and cuDNN are (docs/guides/"
              "gpu.md), or use the device cpu");
}

}  // namespace dl::cuda::detail
