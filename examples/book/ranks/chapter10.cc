// Chapter 10, table 10.2: time and accuracy against the number of ranks, each of which has a GPU,
// or on a machine without GPUs one share of the cores.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "collectives/init/spawn.h"
#include "core/device/cuda/cuda.h"
#include "examples/book/chapters.h"
#include "examples/book/ranks/group_run.h"

namespace dl::examples::book {
namespace {

constexpr int kBooksGpus = 8;

// 2, 4, ... and the most.
std::vector<int> numbers_of_ranks(int most) {
  std::vector<int> numbers;
  for (int ranks = 2; ranks < most; ranks *= 2) numbers.push_back(ranks);
  if (most > 1) numbers.push_back(most);
  return numbers;
}

int most_ranks(const Options& options) {
  if (options.ranks > 0) return options.ranks;
  if (is_on_gpus(options)) return std::max(1, cuda::device_count());
  return std::clamp(cores_for_ranks(options), 2, kBooksGpus);
}

std::string where(const Options& options, int most, int threads) {
  if (!is_on_gpus(options)) {
    return fmt::format("Each rank has {} thread{} of the CPU, where the book's has a GPU", threads,
                       threads == 1 ? "" : "s");
  }
  const int gpus = cuda::device_count();
  return gpus < most ? fmt::format("{} ranks share {} GPU{}", most, gpus, gpus == 1 ? "" : "s")
                     : "Each rank has a GPU of its own";
}

}  // namespace

void chapter10(const Options& given) {
  Options options = with_defaults_of_ranks(given);
  const Recipe chapter = recipe_of_gpus(options);
  if (trained_as_rank(options, chapter)) return;
  if (options.batches.empty()) options.batches = {"fixed", "growing", "scaled"};

  const int most = most_ranks(options);
  // Each rank has the same share of the machine, however many there are.
  const int threads = std::max(1, cores_for_ranks(options) / most);
  for (const int ranks : numbers_of_ranks(most)) check_batches(options, chapter, ranks);
  if (!is_spawned() && !options.json) {
    fmt::print("{}\n", where(options, most, threads));
    std::fflush(stdout);
  }
  const auto alone = train_spawned(options, {.threads = threads}, chapter, "growing");
  if (alone) print_run(options, *alone, {{"kind", "-"}}, /*is_first=*/true);
  RunPlots plots;
  for (const std::string& batches : options.batches) {
    plots.begin_line(batches);
    if (alone) plots.add(1, *alone);
    for (const int ranks : numbers_of_ranks(most)) {
      const auto run = train_spawned(options, {ranks, threads}, chapter, batches);
      if (!run) continue;
      print_run(options, *run, {{"kind", batches}}, /*is_first=*/false);
      plots.add(ranks, *run);
    }
  }
  if (alone && !options.plot.empty()) plots.write("ranks", options.plot);
}

}  // namespace dl::examples::book
