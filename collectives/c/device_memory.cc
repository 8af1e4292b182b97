#include "collectives/c/device_memory.h"

#include <dlfcn.h>

#include <cstdint>
#include <string_view>

#include "core/base/error.h"

namespace dl::collectives::c {
namespace {

// cuda.h
constexpr int kMemoryType = 2;   // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr int kIsManaged = 8;    // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr unsigned kDevice = 2;  // CU_MEMORYTYPE_DEVICE

void refuse(PointerQuestion ask, const void* pointer, std::string_view which) {
  if (pointer == nullptr) return;
  const auto address = static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(pointer));
  unsigned type = 0;
  // An error: the driver does not know the pointer.
  if (ask(&type, kMemoryType, address) != 0 || type != kDevice) return;
  unsigned is_managed = 0;
  const bool is_shared = ask(&is_managed, kIsManaged, address) == 0 && is_managed != 0;
  DL_CHECK(
      is_shared, kInvalidArgument,
      "the {} is memory of a GPU, and this interface takes memory of the CPU; copy it first, or "
      "use dlrun's C++ interface, whose groups take it",
      which);
}

}  // namespace

PointerQuestion find_pointer_question() noexcept {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  const auto ask = reinterpret_cast<PointerQuestion>(::dlsym(driver, "cuPointerGetAttribute"));
  ::dlclose(driver);  // the program that has loaded it keeps it
  return ask;
}

void refuse_device_memory(PointerQuestion ask, const void* input, const void* output) {
  refuse(ask, input, "input");
  refuse(ask, output, "output");
}

}  // namespace dl::collectives::c
