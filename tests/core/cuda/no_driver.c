// libcuda.so.1 of a machine without a GPU: what cuDNN looks up in it to compile engines. It gives
// handles for code that is never run, and no device.
#include <stddef.h>

enum { kSuccess = 0, kNotInitialized = 3 };

#define NOTHING(name) \
  int name(void) {    \
    return kSuccess;  \
  }
#define HANDLE(name)                \
  int name(void** out) {            \
    static char place;              \
    if (out != NULL) *out = &place; \
    return kSuccess;                \
  }

int cuInit(unsigned flags) {
  (void)flags;
  return kNotInitialized;
}

HANDLE(cuCtxGetCurrent)
HANDLE(cuDevicePrimaryCtxRetain)
HANDLE(cuLibraryGetKernel)
HANDLE(cuLibraryLoadData)
HANDLE(cuModuleGetFunction)
HANDLE(cuModuleLoadData)
HANDLE(cuModuleLoadDataEx)
NOTHING(cuCtxGetDevice)
NOTHING(cuCtxGetLimit)
NOTHING(cuCtxPopCurrent)
NOTHING(cuCtxPushCurrent)
NOTHING(cuDeviceGet)
NOTHING(cuDeviceGetAttribute)
NOTHING(cuDeviceGetCount)
NOTHING(cuDevicePrimaryCtxRelease)
NOTHING(cuDevicePrimaryCtxReset)
NOTHING(cuDriverGetVersion)
NOTHING(cuFuncGetAttribute)
NOTHING(cuFuncSetAttribute)
NOTHING(cuGetErrorName)
NOTHING(cuGetErrorString)
NOTHING(cuKernelGetAttribute)
NOTHING(cuKernelSetAttribute)
NOTHING(cuLaunchCooperativeKernel)
NOTHING(cuLaunchKernel)
NOTHING(cuLaunchKernelEx)
NOTHING(cuLibraryLoadFromFile)
NOTHING(cuLibraryUnload)
NOTHING(cuLinkAddData)
NOTHING(cuLinkAddData_v2)
NOTHING(cuLinkAddFile_v2)
NOTHING(cuLinkComplete)
NOTHING(cuLinkCreate)
NOTHING(cuLinkCreate_v2)
NOTHING(cuLinkDestroy)
NOTHING(cuMemcpyDtoH_v2)
NOTHING(cuModuleGetGlobal_v2)
NOTHING(cuModuleLoadFatBinary)
NOTHING(cuModuleUnload)
NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NOTHING(cuOccupancyMaxPotentialClusterSize)
NOTHING(cuStreamGetCtx)
NOTHING(cuStreamSynchronize)
NOTHING(cuTensorMapEncodeTiled)
