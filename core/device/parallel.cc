#include "core/device/parallel.h"

#include <omp.h>

#include <algorithm>

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

void detail::parallel_ranges(std::int64_t count, std::int64_t grain, RangeBody call,
                             const void* body) {
  if (count <= 0) return;
  const std::int64_t wanted = count <= grain ? 1 : (count + grain - 1) / grain;
  const std::int64_t threads = wanted == 1 || serial || omp_in_parallel() != 0
                                   ? 1
                                   : std::min<std::int64_t>(wanted, omp_get_max_threads());
  if (threads == 1) {
    call(body, 0, count);
    return;
  }
  const std::int64_t share = (count + threads - 1) / threads;
#pragma omp parallel for num_threads(static_cast<int>(threads)) schedule(static, 1)
  for (std::int64_t t = 0; t < threads; ++t) {
    const std::int64_t begin = t * share;
    const std::int64_t end = std::min(count, begin + share);
    if (begin < end) call(body, begin, end);
  }
}

}  // namespace dl
