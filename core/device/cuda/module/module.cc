#include "core/device/cuda/module/module.h"

#include <atomic>
#include <exception>

#include "core/base/error.h"
#include "core/base/mutex.h"

namespace dl::cuda {
namespace {

constinit std::atomic<const Module*> opened{nullptr};
constinit Mutex module_mutex;

// Constant-initialised, and without a destructor that would run before the last tensor is
// destroyed.
union Failure {
  constexpr Failure() noexcept : nothing{} {}
  ~Failure() {}
  char nothing;
  std::exception_ptr error;
};
constinit Failure failure;
constinit bool failed = false;

}  // namespace

const Module& module() {
  if (const Module* const known = opened.load(std::memory_order_acquire)) return *known;
  const Lock lock(module_mutex);
  if (const Module* const known = opened.load(std::memory_order_relaxed)) return *known;
  if (failed) std::rethrow_exception(failure.error);
  try {
    const Module& found = detail::open_module();
    opened.store(&found, std::memory_order_release);
    return found;
  } catch (...) {
    new (&failure.error) std::exception_ptr(std::current_exception());
    failed = true;
    throw;
  }
}

std::string unavailable_reason() {
  try {
    module();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

void use_module(const Module& module) {
  const Lock lock(module_mutex);
  DL_CHECK(opened.load() == nullptr && !failed, kInvalidArgument,
           "use_module: CUDA has been used already");
  opened.store(&module, std::memory_order_release);
}

}  // namespace dl::cuda
