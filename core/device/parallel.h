// Threads of the CPU: how many, and loops that are divided among them.
//
// OpenMP's team belongs to the thread that opens a region, so one thread of a process does: the one
// that trains. Threads that must not (data loading, progress) hold a SerialScope.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace dl {

// Threads of one parallel loop: OMP_NUM_THREADS, or what set_num_threads() said last.
int num_threads() noexcept;
// At least 1; throws kInvalidArgument otherwise.
void set_num_threads(int threads);

// While it lives, parallel loops of this thread run on this thread alone.
class SerialScope {
 public:
  SerialScope() noexcept;
  ~SerialScope();
  SerialScope(const SerialScope&) = delete;
  SerialScope& operator=(const SerialScope&) = delete;

 private:
  bool before_;
};

namespace detail {
// Threads that a loop opened here may have: 1 inside a region or a SerialScope.
int usable_threads() noexcept;
}  // namespace detail

// body(begin, end) on disjoint ranges that cover [0, count): one range a thread, in order, none
// smaller than `grain` but the last. The division depends on count, grain and num_threads() only.
// The body must not throw.
template <typename Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  const std::int64_t wanted = count <= grain ? 1 : (count + grain - 1) / grain;
  const std::int64_t threads =
      wanted == 1 ? 1 : std::min<std::int64_t>(wanted, detail::usable_threads());
  if (threads == 1) {
    body(std::int64_t{0}, count);
    return;
  }
  const std::int64_t share = (count + threads - 1) / threads;
#pragma omp parallel for num_threads(static_cast<int>(threads)) schedule(static, 1)
  for (std::int64_t t = 0; t < threads; ++t) {
    const std::int64_t begin = t * share;
    const std::int64_t end = std::min(count, begin + share);
    if (begin < end) body(begin, end);
  }
}

}  // namespace dl
