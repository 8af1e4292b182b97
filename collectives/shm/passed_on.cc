#include "collectives/shm/passed_on.h"

namespace dl::collectives::shm {

void PassedOn::wait(Stream stream) {
  try {
    inner_->wait(stream);
  } catch (...) {
    core_->throw_if_broken();
    throw;
  }
}

void PassedOn::synchronize(std::optional<std::chrono::nanoseconds> timeout) {
  try {
    inner_->synchronize(timeout);
  } catch (...) {
    core_->throw_if_broken();
    throw;
  }
}

std::exception_ptr PassedOn::error() const noexcept {
  const std::exception_ptr failed = inner_->error();
  if (!failed) return nullptr;
  const std::exception_ptr cause = core_->error();
  return cause ? cause : failed;
}

}  // namespace dl::collectives::shm
