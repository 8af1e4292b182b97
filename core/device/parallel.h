// Threads of the CPU: how many, and loops that are divided among them.
//
// OpenMP's team belongs to the thread that opens a region, so one thread of a process does: the one
// that trains. Threads that must not (data loading, progress) hold a SerialScope.
#pragma once

#include <cstdint>

namespace dl {

// More than any machine has; OpenMP ends a process that opens a region of very many.
inline constexpr int kMostThreads = 4096;

// Threads of one parallel loop, 1 to kMostThreads: OMP_NUM_THREADS, or what set_num_threads() said
// last on this thread. A larger OMP_NUM_THREADS becomes kMostThreads, with a warning.
int num_threads() noexcept;
// Throws kInvalidArgument if it is not from 1 to kMostThreads.
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
// Calls call(body, part) for each part in [0, parts), each on its own thread, and waits for all.
using PartBody = void (*)(const void* body, int part);
void run_parts(int parts, PartBody call, const void* body);
using RangeBody = void (*)(const void* body, std::int64_t begin, std::int64_t end);
void parallel_ranges(std::int64_t count, std::int64_t grain, RangeBody call, const void* body);
}  // namespace detail

// body(begin, end) on disjoint ranges that cover [0, count): one range a thread, in order, none
// smaller than `grain` but the last. The division depends on count, grain and num_threads() only.
// The body must not throw. The loop is compiled once; a body is called through a pointer, once a
// range.
template <typename Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  detail::parallel_ranges(
      count, grain,
      [](const void* erased, std::int64_t begin, std::int64_t end) {
        (*static_cast<const Body*>(erased))(begin, end);
      },
      &body);
}

}  // namespace dl
