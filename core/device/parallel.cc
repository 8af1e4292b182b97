#include "core/device/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

#include "core/base/error.h"
#include "core/base/log.h"

namespace dl {
namespace {

constinit thread_local bool serial = false;
constinit std::atomic<bool> told_of_too_many{false};

// Also for libraries, which ask OpenMP and not num_threads().
int take_the_most(int wanted) noexcept {
  omp_set_num_threads(kMostThreads);
  if (!told_of_too_many.exchange(true)) {
    try {
      log::warning(
          "OMP_NUM_THREADS is {}: loops are divided among {} threads, the most there may be",
          wanted, kMostThreads);
    } catch (...) {
      // No memory for a sentence.
    }
  }
  return kMostThreads;
}

}  // namespace

int num_threads() noexcept {
  const int wanted = omp_get_max_threads();
  return wanted <= kMostThreads ? wanted : take_the_most(wanted);
}

void set_num_threads(int threads) {
  DL_CHECK(threads >= 1 && threads <= kMostThreads, kInvalidArgument,
           "set_num_threads: {} threads, wanted a number from 1 to {}", threads, kMostThreads);
  omp_set_num_threads(threads);
}

SerialScope::SerialScope() noexcept : before_(serial) {
  serial = true;
}

SerialScope::~SerialScope() {
  serial = before_;
}

int detail::usable_threads() noexcept {
  return serial || omp_in_parallel() != 0 ? 1 : num_threads();
}

void detail::parallel_ranges(std::int64_t count, std::int64_t grain, RangeBody call,
                             const void* body) {
  if (count <= 0) return;
  const std::int64_t wanted = count <= grain ? 1 : (count + grain - 1) / grain;
  const std::int64_t threads = wanted == 1 || serial || omp_in_parallel() != 0
                                   ? 1
                                   : std::min<std::int64_t>(wanted, num_threads());
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
