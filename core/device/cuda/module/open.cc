// Opening libdlrun_cuda.so. In a build without CUDA no_cuda.cc stands in its place.
#include <dlfcn.h>

#include "core/base/error.h"
#include "core/base/version.h"
#include "core/device/cuda/module/library.h"
#include "core/device/cuda/module/module.h"

namespace dl::cuda::detail {

const Module& open_module() {
  // The driver first: without one there is no use in the 70 ms that cuBLAS and cuDNN take to load.
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
