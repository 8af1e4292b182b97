#include "collectives/bench/measure/measure.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

namespace dl::collectives::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLine = 64;

double microseconds(Clock::duration span) {
  return std::chrono::duration<double, std::micro>(span).count();
}

// Combines the ranks' times of each iteration as -a asks.
void agree(ProcessGroup& group, Average average, std::vector<double>& times) {
  if (average == Average::kRank0) return;  // rank 0 prints
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax};
  group
      .all_reduce({.input = times.data(),
                   .output = times.data(),
                   .count = times.size(),
                   .dtype = DType::kF64,
                   .op = kOps[static_cast<std::size_t>(average)]})
      ->wait();
}

std::size_t sum_of_all(ProcessGroup& group, std::size_t value) {
  group.all_reduce({.input = &value, .output = &value, .count = 1, .dtype = DType::kU64})->wait();
  return value;
}

// Starts all slots at once. With `times_calls` it returns the time when the last call had returned.
// Reading the clock takes a tenth of a small operation's time.
Clock::time_point run_slots(Workload& workload, std::vector<Ref<Work>>& works,
                            bool times_calls = false) {
  for (std::size_t i = 0; i < works.size(); ++i) works[i] = workload.start(i);
  const Clock::time_point returned = times_calls ? Clock::now() : Clock::time_point();
  workload.finish(works);
  return returned;
}

Result measure_back_to_back(ProcessGroup& group, const Options& o, Workload& workload,
                            std::size_t iterations) {
  std::vector<Ref<Work>> works(o.aggregate);
  workload.rewrite();
  for (std::size_t i = 0; i < o.warmup; ++i) run_slots(workload, works);
  group.barrier()->wait();
  const Clock::time_point started = Clock::now();
  if (workload.queues()) {
    for (std::size_t i = 0; i < iterations * works.size(); ++i) {
      works[i % works.size()] = workload.start(i % works.size());
    }
    workload.finish(works);
    static_cast<void>(workload.device_us(works));  // throws the error of a failed operation
  } else {
    for (std::size_t i = 0; i < iterations; ++i) run_slots(workload, works);
  }
  std::vector<double> mean{microseconds(Clock::now() - started) /
                           static_cast<double>(iterations * o.aggregate)};
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < o.check; ++i) {
    workload.rewrite();
    group.barrier()->wait();
    run_slots(workload, works);
    wrong += workload.wrong();
  }
  agree(group, o.average, mean);
  return {.times = summarize(mean),
          .iterations = iterations,
          .wrong = sum_of_all(group, wrong),
          .algorithm = std::string(works.front()->algorithm())};
}

}  // namespace

Times summarize(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const auto n = static_cast<double>(us.size());
  const double mean = std::accumulate(us.begin(), us.end(), 0.0) / n;
  double squares = 0;
  for (const double x : us) squares += (x - mean) * (x - mean);
  return {.min = us.front(),
          .p50 = us[us.size() / 2],
          .p99 = us[static_cast<std::size_t>(n * 0.99)],
          .max = us.back(),
          .mean = mean,
          .variation = mean > 0 ? std::sqrt(squares / n) / mean : 0};
}

CacheEvictor::CacheEvictor() {
  constexpr std::size_t kWhereUnknown = std::size_t{64} << 20;
  const long last_level = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  memory_.resize(last_level > 0 ? 2 * static_cast<std::size_t>(last_level) : kWhereUnknown);
}

void CacheEvictor::evict() noexcept {
  auto* const bytes = reinterpret_cast<volatile unsigned char*>(memory_.data());
  for (std::size_t i = 0; i < memory_.size(); i += kLine) bytes[i] = bytes[i] + 1;
}

Result measure(ProcessGroup& group, const Options& o, Workload& workload, std::size_t iterations,
               CacheEvictor* evictor) {
  if (o.back_to_back) return measure_back_to_back(group, o, workload, iterations);
  std::vector<Ref<Work>> works(o.aggregate);
  std::vector<double> times, calls, rewrites, hosts;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < o.warmup + iterations; ++i) {
    const Clock::time_point begin = Clock::now();
    workload.rewrite();
    const Clock::time_point written = Clock::now();
    if (evictor != nullptr) evictor->evict();
    group.barrier()->wait();
    workload.begin();
    const Clock::time_point started = Clock::now();
    const Clock::time_point returned = run_slots(workload, works, o.call_time);
    const Clock::time_point stopped = Clock::now();
    const std::optional<double> device_us = workload.device_us(works);
    if (o.check > 0) wrong += workload.wrong();
    if (i < o.warmup) continue;
    const double host_us = microseconds(stopped - started);
    times.push_back(device_us.value_or(host_us) / static_cast<double>(o.aggregate));
    if (device_us) hosts.push_back(host_us / static_cast<double>(o.aggregate));
    if (o.call_time) {
      calls.push_back(microseconds(returned - started) / static_cast<double>(o.aggregate));
    }
    rewrites.push_back(microseconds(written - begin) / static_cast<double>(o.aggregate));
  }
  agree(group, o.average, times);
  if (o.call_time) agree(group, o.average, calls);
  if (!hosts.empty()) agree(group, o.average, hosts);
  times.erase(times.begin(),
              times.begin() + static_cast<std::ptrdiff_t>(std::min(o.skip, times.size() - 1)));
  return {.times = summarize(times),
          .call_us = o.call_time ? summarize(calls).p50 : 0,
          .rewrite_us = summarize(rewrites).p50,
          .host_us = hosts.empty() ? std::nullopt : std::optional(summarize(hosts).p50),
          .iterations = iterations,
          .wrong = sum_of_all(group, wrong),
          .algorithm = std::string(works.front()->algorithm())};
}

}  // namespace dl::collectives::bench
