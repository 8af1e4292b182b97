// Chapter 9, tables 9.1 to 9.3: threads and ranks on the CPUs of one machine.
#include <string>
#include <utility>

#include "examples/book/chapters.h"
#include "examples/book/ranks/group_run.h"

namespace dl::examples::book {
void chapter9(const Options& given) {
  Options options = with_defaults_of_ranks(given);
  const Recipe chapter = on_digits({.epochs = 5, .batch_size = 32, .prints = false}, options);
  if (trained_as_rank(options, chapter)) return;
  if (options.batches.empty()) options.batches = {"growing"};

  const int cores = cores_for_ranks(options);
  RunPlots plots;
  bool is_first = true;
  const auto add_row = [&](const Ranks& ranks, double x) {
    const auto run = train_spawned(options, ranks, chapter, options.batches.front());
    if (!run) return;
    print_run(options, *run,
              {{"threads", std::to_string(ranks.threads)},
               {"backend", ranks.count == 1 ? "-" : ranks.backend}},
              std::exchange(is_first, false));
    plots.add(x, *run);
  };
  plots.begin_line("one rank");
  for (int threads = 1; threads <= cores; threads *= 2) add_row({1, threads, "auto"}, threads);
  // PyTorch's Gloo and oneCCL have counterparts in "tcp" and "shm".
  for (const char* backend : {"tcp", "shm"}) {
    plots.begin_line(std::string("ranks over ") + backend);
    for (int ranks = 2; ranks <= cores; ranks *= 2) {
      add_row({ranks, cores / ranks, backend}, ranks);
    }
  }
  if (!options.plot.empty() && !is_first) {
    plots.write("threads of one rank; or ranks that share " + std::to_string(cores), options.plot);
  }
}

}  // namespace dl::examples::book
