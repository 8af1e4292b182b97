// What stands around every operation: nanoseconds an operation with the flight recorder and
// without, and of a group on the CPU with the group for GPUs in front of it and without.
//
//   recorder_cost [ROUNDS]     (21 rounds of 100,000 operations each, all kinds in turns)
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "collectives/device/device_group.h"
#include "collectives/record/recorder.h"
#include "collectives/solo/solo_group.h"

namespace {

using namespace dl::collectives::record;
using dl::collectives::ProcessGroup;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kOperations = 100'000;

template <typename Operation>
double nanoseconds(const Operation& operation) {
  const auto begin = Clock::now();
  for (std::uint64_t i = 1; i <= kOperations; ++i) operation(i);
  const std::chrono::duration<double, std::nano> took = Clock::now() - begin;
  return took.count() / kOperations;
}

void print(const char* what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  std::printf("%-44s  %8.1f  %8.1f\n", what, times[times.size() / 2], times.front());
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 21;
  const auto recorder = Recorder::make({}, {}, {});
  if (!recorder) return 1;
  GroupRecorder on = recorder->add_group({.name = "world"});
  GroupRecorder off;
  const ClockKind clock = best_clock();
  volatile std::uint64_t sink = 0;
  std::vector<double> reading, in_caller, handed_over, nothing, bare, behind;
  const auto handed = [](GroupRecorder& group, std::uint64_t i) {
    Slot* const slot = group.enqueue({.sequence = i, .count = i, .hash = 1});
    group.start(slot, 1);
    group.finish(slot);
  };
  const dl::Ref<ProcessGroup> group = dl::collectives::make_solo_group("world");
  const dl::Ref<ProcessGroup> device_group = dl::collectives::make_device_group(group, {});
  float value = 1;
  const auto reduce = [&value](ProcessGroup& through) {
    through.all_reduce({.input = &value, .output = &value, .count = 1})->wait();
  };
  for (int round = -1; round < rounds; ++round) {
    const double times[] = {nanoseconds([&](std::uint64_t) { sink = ticks(clock); }),
                            nanoseconds([&](std::uint64_t i) {
                              on.finish(on.begin({.sequence = i, .count = i, .hash = 1}, 1));
                            }),
                            nanoseconds([&](std::uint64_t i) { handed(on, i); }),
                            nanoseconds([&](std::uint64_t i) { handed(off, i); }),
                            nanoseconds([&](std::uint64_t) { reduce(*group); }),
                            nanoseconds([&](std::uint64_t) { reduce(*device_group); })};
    if (round < 0) continue;  // touches the memory
    reading.push_back(times[0]);
    in_caller.push_back(times[1]);
    handed_over.push_back(times[2]);
    nothing.push_back(times[3]);
    bare.push_back(times[4]);
    behind.push_back(times[5]);
  }
  std::printf("clock: %s\n%-44s  %8s  %8s\n",
              clock == ClockKind::kTimeStampCounter ? "time stamp counter" : "CLOCK_MONOTONIC",
              "ns", "median", "least");
  print("one reading of the clock", reading);
  print("an operation: begin, finish", in_caller);
  print("an operation: enqueue, start, finish", handed_over);
  print("the same, recorder off", nothing);
  print("all_reduce of one element, one rank", bare);
  print("the same behind the group for GPUs", behind);
  return 0;
}
