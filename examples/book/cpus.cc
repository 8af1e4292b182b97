// Chapter 9: ranks on the CPUs of one machine.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "collectives/init/init.h"
#include "collectives/init/spawn.h"
#include "core/base/env.h"
#include "core/device/parallel.h"
#include "core/random/generator.h"
#include "examples/book/chapters.h"
#include "examples/book/cnn.h"
#include "examples/book/images.h"
#include "examples/book/training.h"
#include "nn/data/data_loader.h"
#include "nn/data/sampler.h"

namespace dl::examples::book {
namespace {

struct Measured {
  double seconds = 0;
  double percent = 0;  // of the test images, on rank 0
};

// The ranks of the default group train together; each keeps its batch, so that more ranks take
// fewer steps. Rank 0 tests.
Measured train_on_ranks(const Options& options, bool prints) {
  const Ref<collectives::ProcessGroup> group = default_group();
  const Images images = load_images(options, Set::kCifar10);
  data::DistributedSampler sampler(images.train.size(),
                                   {.num_replicas = group->size(), .rank = group->rank()});
  const Recipe recipe{.epochs = options.epochs.value_or(5),
                      .batch_size = options.batch_size.value_or(32),
                      .lr = options.lr.value_or(1e-5),
                      .workers = options.workers.value_or(0),
                      .prints = prints,
                      .group = group,
                      .sampler = &sampler};
  manual_seed(42);
  CNN model(images.model);
  const data::DataLoaderOptions loading{.batch_size = recipe.batch_size,
                                        .num_workers = recipe.workers};
  Measured measured;
  measured.seconds = train(model, data::DataLoader(images.train, sampler, loading), recipe).seconds;
  if (group->rank() == 0) {
    measured.percent = test(model, data::DataLoader(images.test, loading), recipe);
  }
  return measured;
}

void print_row(const Options& options, int ranks, int threads) {
  spawn(
      [&](int rank) {
        set_num_threads(threads);
        init_process_group();
        const Measured measured = train_on_ranks(options, /*prints=*/false);
        if (rank == 0) {
          fmt::print("{:>5} {:>8} {:>8.2f} {:>8.2f} %\n", ranks, threads, measured.seconds,
                     measured.percent);
          std::fflush(stdout);
        }
        destroy_process_group();
      },
      ranks);
}

}  // namespace

void chapter9(const Options& options) {
  if (env::get_int(env::Var::kRank) && !is_spawned()) {
    init_process_group();
    train_on_ranks(options, /*prints=*/true);
    destroy_process_group();
    return;
  }
  // Not num_threads(), which differs between ranks: all processes must compute the same rows.
  const int cores = options.threads > 0
                        ? options.threads
                        : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (!is_spawned()) {
    fmt::print("{:>5} {:>8} {:>8} {:>10}\n", "ranks", "threads", "seconds", "accuracy");
    std::fflush(stdout);
  }
  for (int threads = 1; threads <= cores; threads *= 2) print_row(options, 1, threads);
  for (int ranks = 2; ranks <= cores; ranks *= 2) print_row(options, ranks, cores / ranks);
}

}  // namespace dl::examples::book
