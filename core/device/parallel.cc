#include "core/device/parallel.h"

#include "core/base/error.h"

namespace dl {
namespace {

constinit thread_local bool serial = false;

}  // namespace

int num_threads() noexcept {
  return omp_get_max_threads();
}

void set_num_threads(int threads) {
  DL_CHECK(threads >= 1, kInvalidArgument, "set_num_threads: {} threads, wanted at least 1",
           threads);
  omp_set_num_threads(threads);
}

SerialScope::SerialScope() noexcept : before_(serial) {
  serial = true;
}

SerialScope::~SerialScope() {
  serial = before_;
}

int detail::usable_threads() noexcept {
  return serial || omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
}

}  // namespace dl
