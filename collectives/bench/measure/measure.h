// Times one workload. An iteration has these steps: rewrite the input, barrier, start, operation,
// stop. Its time is that of the slowest rank, unless -a asks for another. On a GPU, a rank's time
// is the time between two events of the stream. With --back-to-back, the time is the mean over
// operations that run one after the other, as in nccl-tests. Collective: every rank calls it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/bench/measure/options.h"
#include "collectives/bench/measure/workload.h"

namespace dl::collectives::bench {

// Microseconds of one operation, over the iterations.
struct Times {
  double min = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
  double mean = 0;
  double variation = 0;  // standard deviation / mean
};
// p50 is the element n / 2 of the sorted times, and p99 the element 0.99 n.
Times summarize(std::vector<double> us);

struct Result {
  Times times;
  double call_us = 0;     // -C: p50 of the time until the call had returned
  double rewrite_us = 0;  // p50 of rewriting the input, on rank 0
  // If `times` are by the device's events: p50 by the host's clock, until the host has noticed that
  // the operation is over.
  std::optional<double> host_us{};
  std::optional<Times> bare{};  // --bare: ncclAllReduce's
  std::size_t iterations = 0;
  std::size_t wrong = 0;  // elements, of all ranks and iterations
  std::string algorithm;  // as the Work tells it
};

// Memory that --cold reads before each iteration; larger than the last-level cache.
class CacheEvictor {
 public:
  CacheEvictor();
  void evict() noexcept;

 private:
  std::vector<std::byte> memory_;
};

// `evictor`: null if caches are left as they are.
Result measure(ProcessGroup& group, const Options& options, Workload& workload,
               std::size_t iterations, CacheEvictor* evictor);

}  // namespace dl::collectives::bench
