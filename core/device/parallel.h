// CPU threads: their number, and loops that are divided among them.
//
// Each thread that opens an OpenMP region gets a team of its own. So only the training thread opens
// regions; other threads (data loading, progress) hold a SerialScope.
#pragma once

#include <cstdint>
#include <string>

namespace dl {

// More than any machine has. OpenMP kills a process that opens a region with far too many.
inline constexpr int kMostThreads = 4096;

// Threads of one parallel loop, 1 to kMostThreads: OMP_NUM_THREADS, or the last set_num_threads()
// on this thread. A larger OMP_NUM_THREADS becomes kMostThreads, with a warning.
int num_threads() noexcept;
// Throws kInvalidArgument if it is not from 1 to kMostThreads.
void set_num_threads(int threads);

// The threads, libraries and environment variables that affect computation, in several lines, like
// torch.__config__.parallel_info(). Any thread may call.
std::string parallel_info();

// While it lives, parallel loops that this thread opens run serially.
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
// The number of threads for a loop opened now: 1 inside a region or a SerialScope.
int usable_threads() noexcept;
// Calls call(body, part) for each part in [0, parts), each on its own thread, and waits for all.
using PartBody = void (*)(const void* body, int part);
void run_parts(int parts, PartBody call, const void* body);
using RangeBody = void (*)(const void* body, std::int64_t begin, std::int64_t end);
void parallel_ranges(std::int64_t count, std::int64_t grain, RangeBody call, const void* body);
}  // namespace detail

// Calls body(begin, end) on disjoint ranges that cover [0, count): one range for each thread, in
// order, none smaller than `grain` except the last. The division depends on count, grain and
// num_threads() only. The body must not throw; it is called through a pointer, once for each range.
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
