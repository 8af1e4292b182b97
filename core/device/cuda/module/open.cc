// Opens libdlrun_cuda.so. no_cuda.cc replaces this file in a build without CUDA.
#include <dlfcn.h>

#include "core/base/error.h"
#include "core/base/version.h"
#include "core/device/cuda/module/library.h"
#include "core/device/cuda/module/module.h"

namespace dl::cuda::detail {

const Module& open_module() {
  // Try the driver first: without it, loading cuBLAS and cuDNN would waste 70 ms.
  DL_CHECK(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) != nullptr, kNotFound,
           "cuda: there is no NVIDIA driver on this machine ({}); use the device cpu", ::dlerror());
  constexpr std::string_view kFile = "libdlrun_cuda.so";
  void* const library = open_library("cuda", kFile);
  const auto open = reinterpret_cast<OpenModule>(::dlsym(library, kModuleSymbol));
  const std::string version(kVersion);
  const Module* const module =
      open != nullptr ? open(kModuleAbi, version.c_str(), &host()) : nullptr;
  DL_CHECK(module != nullptr, kMismatch, "cuda: {} belongs to another build of dlrun than {}",
           kFile, version);
  return *module;
}

}  // namespace dl::cuda::detail
