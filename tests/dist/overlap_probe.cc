// overlap_probe: how well DDP hides its communication, on whatever lies between the ranks.
//
//     overlap_probe [--batch N] [--rounds N]        on every rank of a job
//
// Trains the book's CNN, one thread a rank, and times in turn, so that all meet the same machine:
//   backward    a pass without synchronisation
//   all-reduce  the same gradients in the same buckets, with nothing computed meanwhile
//   both        a pass with DDP
//   step        zero_grad, forward, backward, optimizer; with DDP, and without synchronisation
// Each begins with a barrier, and a time is the slowest rank's; the figures are medians. Prints one
// JSON object on rank 0, with what DDP itself says was hidden beside what these times say.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/init/init.h"
#include "core/base/error.h"
#include "core/device/parallel.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/models/book.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/parallel/distributed.h"

namespace {

using Ms = std::chrono::duration<double, std::milli>;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Of the slowest rank, after all have come.
double timed(dl::collectives::ProcessGroup& group, const std::function<void()>& work) {
  group.barrier()->wait();
  const auto begin = std::chrono::steady_clock::now();
  work();
  double took = Ms(std::chrono::steady_clock::now() - begin).count();
  group
      .all_reduce({.input = &took,
                   .output = &took,
                   .count = 1,
                   .dtype = dl::DType::kF64,
                   .op = dl::collectives::ReduceOp::kMax})
      ->synchronize();
  return took;
}

struct Options {
  std::int64_t batch = 64;
  int rounds = 15;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const int value = i + 1 < argc ? std::atoi(argv[i + 1]) : 0;
    DL_CHECK(
        (name == "--batch" || name == "--rounds") && value > 0, kInvalidArgument,
        "overlap_probe: {} is no option with a number above 0; there is: --batch N, --rounds N",
        name);
    if (name == "--batch") options.batch = value;
    if (name == "--rounds") options.rounds = value;
  }
  return options;
}

void probe(const Options& options) {
  dl::set_num_threads(1);
  dl::manual_seed(123);
  const auto group = dl::default_group();
  dl::nn::Sequential model = dl::nn::models::book_cnn();
  dl::nn::parallel::DistributedDataParallel ddp(model, group);
  dl::optim::SGD opt(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  const dl::Tensor x = dl::randn({options.batch, 1, 28, 28});
  const dl::Tensor y = dl::randint(0, 10, {options.batch});
  const auto loss = [&] {
    opt.zero_grad();
    return dl::nn::functional::cross_entropy(ddp(x), y);
  };
  for (int i = 0; i < 3; ++i) loss().backward();
  ddp.reset_overlap();

  std::vector<dl::Tensor> buckets;
  for (const auto& plan : ddp.bucket_plan()) {
    buckets.push_back(dl::ones({static_cast<std::int64_t>(plan.elements)}));
  }
  const auto all_reduce_buckets = [&] {
    std::vector<dl::Ref<dl::collectives::Work>> works;
    works.reserve(buckets.size());
    for (const dl::Tensor& bucket : buckets) {
      works.push_back(group->all_reduce({.input = bucket.data_ptr(),
                                         .output = bucket.data_ptr(),
                                         .count = static_cast<std::size_t>(bucket.numel()),
                                         .op = dl::collectives::ReduceOp::kAvg,
                                         .call = {.keep_alive = bucket.storage()}}));
    }
    for (const auto& work : works) work->wait();
  };

  std::vector<double> backward, all_reduce, both, step_alone, step;
  for (int round = 0; round < options.rounds; ++round) {
    dl::Tensor l;
    {
      const auto guard = ddp.no_sync();
      step_alone.push_back(timed(*group, [&] {
        loss().backward();
        opt.step();
      }));
      l = loss();
      backward.push_back(timed(*group, [&] { l.backward(); }));
    }
    all_reduce.push_back(timed(*group, all_reduce_buckets));
    l = loss();
    both.push_back(timed(*group, [&] { l.backward(); }));
    step.push_back(timed(*group, [&] {
      loss().backward();
      opt.step();
    }));
  }
  if (group->rank() != 0) return;

  const double longer = std::max(median(backward), median(all_reduce));
  const double longer_step = std::max(median(step_alone), median(all_reduce));
  // What the clock says of the same thing that DDP reports: of the all-reduce's time, all but what
  // it added to backward was hidden.
  const double by_the_clock =
      1 - std::max(0.0, median(both) - median(backward)) / median(all_reduce);
  const nlohmann::ordered_json result = {{"batch", options.batch},
                                         {"ranks", group->size()},
                                         {"gradient_bytes", ddp.last_overlap().bytes},
                                         {"buckets", buckets.size()},
                                         {"backward_ms", median(backward)},
                                         {"all_reduce_ms", median(all_reduce)},
                                         {"both_ms", median(both)},
                                         {"both_to_longer", median(both) / longer},
                                         {"step_alone_ms", median(step_alone)},
                                         {"step_ms", median(step)},
                                         {"step_to_longer", median(step) / longer_step},
                                         {"hidden_by_the_clock", by_the_clock},
                                         {"hidden_printed", ddp.overlap().hidden()},
                                         {"printed", ddp.overlap().str()}};
  fmt::print("{}\n", result.dump(2));
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  dl::init_process_group();
  probe(options);
  dl::destroy_process_group();
}
