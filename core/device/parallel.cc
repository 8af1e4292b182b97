#include "core/device/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/sanitizers.h"

#if defined(__SANITIZE_THREAD__)
#include <thread>
#include <vector>
#endif

namespace dl {
namespace {

constinit thread_local bool serial = false;
constinit std::atomic<bool> told_of_too_many{false};

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer does not know libgomp's barriers. Our loops use threads, which it does know;
// OpenMP, which oneDNN uses, keeps the number that it began with.
constinit thread_local int threads_of_loops = 0;
int wanted_threads() noexcept {
  return threads_of_loops != 0 ? threads_of_loops : omp_get_max_threads();
}
void want_threads(int threads) noexcept {
  threads_of_loops = threads;
}
#else
int wanted_threads() noexcept {
  return omp_get_max_threads();
}
void want_threads(int threads) noexcept {
  omp_set_num_threads(threads);
}
#endif

// Also sets OpenMP's number of threads, for libraries that use that instead of num_threads().
int take_the_most(int wanted) noexcept {
  want_threads(kMostThreads);
  if (!told_of_too_many.exchange(true)) {
    try {
      log::warning(
          "OMP_NUM_THREADS is {}: loops are divided among {} threads, the most there may be",
          wanted, kMostThreads);
    } catch (...) {
      // No memory for a log line.
    }
  }
  return kMostThreads;
}

}  // namespace

int num_threads() noexcept {
  const int wanted = wanted_threads();
  return wanted <= kMostThreads ? wanted : take_the_most(wanted);
}

void set_num_threads(int threads) {
  DL_CHECK(threads >= 1 && threads <= kMostThreads, kInvalidArgument,
           "set_num_threads: {} threads, wanted a number from 1 to {}", threads, kMostThreads);
  want_threads(threads);
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

#if defined(__SANITIZE_THREAD__)
void detail::run_parts(int parts, PartBody call, const void* body) {
  std::vector<std::jthread> threads;
  for (int part = 1; part < parts; ++part) {
    threads.emplace_back([=] {
      const SerialScope inside;
      call(body, part);
    });
  }
  const SerialScope inside;
  call(body, 0);
}
#else
void detail::run_parts(int parts, PartBody call, const void* body) {
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int part = 0; part < parts; ++part) call(body, part);
}
#endif

void detail::parallel_ranges(std::int64_t count, std::int64_t grain, RangeBody call,
                             const void* body) {
  if (count <= 0) return;
  const std::int64_t wanted = count <= grain ? 1 : (count + grain - 1) / grain;
  const std::int64_t threads = wanted == 1 ? 1 : std::min<std::int64_t>(wanted, usable_threads());
  if (threads == 1) {
    call(body, 0, count);
    return;
  }
  const std::int64_t share = (count + threads - 1) / threads;
  const auto run = [&](int part) {
    const std::int64_t begin = part * share;
    const std::int64_t end = std::min(count, begin + share);
    if (begin < end) call(body, begin, end);
  };
  run_parts(
      static_cast<int>(threads),
      [](const void* erased, int part) { (*static_cast<const decltype(run)*>(erased))(part); },
      &run);
}

}  // namespace dl
