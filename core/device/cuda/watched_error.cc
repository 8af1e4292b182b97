#include "core/device/cuda/watched_error.h"

#include <vector>

#include "core/base/mutex.h"

namespace dl::cuda {
namespace {

constinit Mutex watched_mutex;

// Never destroyed: a model may be a static object.
std::vector<const WatchedError*>& watched_errors() {
  static auto* const all = new std::vector<const WatchedError*>;
  return *all;
}

}  // namespace

WatchedError::WatchedError(int device, Ref<FirstError> error)
    : FirstError(std::move(error)), device_(device) {
  const Lock lock(watched_mutex);
  watched_errors().push_back(this);
}

WatchedError::~WatchedError() {
  const Lock lock(watched_mutex);
  std::erase(watched_errors(), this);
}

std::exception_ptr error_on(int device) noexcept {
  const Lock lock(watched_mutex);
  for (const WatchedError* const each : watched_errors()) {
    if (each->device_ != device) continue;
    if (std::exception_ptr error = each->get()) return error;
  }
  return nullptr;
}

}  // namespace dl::cuda
