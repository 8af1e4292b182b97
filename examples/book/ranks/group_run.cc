#include "examples/book/ranks/group_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "collectives/init/init.h"
#include "collectives/init/launch.h"
#include "collectives/init/spawn.h"
#include "collectives/tensor/tensor_api.h"
#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "core/device/parallel.h"
#include "core/random/generator.h"
#include "core/tensor/factories.h"
#include "examples/book/cnn.h"
#include "examples/book/images.h"
#include "examples/train_image/choices/models.h"
#include "examples/train_image/choices/task.h"
#include "nn/data/data_loader.h"
#include "nn/data/sampler.h"

namespace dl::examples::book {

// Rank 0 tells a run to the first process as JSON.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GroupRun, ranks, rank_batch, steps, seconds, loss, percents,
                                   device)

namespace {

double mean_over_ranks(collectives::ProcessGroup& group, double value) {
  const Tensor all = full({1}, value, {.dtype = DType::kF64});
  collectives::all_reduce(group, all, {.op = collectives::ReduceOp::kAvg})->wait();
  return all.item<double>();
}

}  // namespace

Subject load_subject(const Options& options) {
  if (options.model == "book") {
    const Images images = load_images(options, Set::kCifar10);
    return {.train = std::make_shared<data::ImageDataset>(images.train),
            .test = std::make_shared<data::ImageDataset>(images.test),
            .make_model = [model = images.model](Device device) {
              auto made = std::make_unique<CNN>(model);
              made->to(device);
              return made;
            }};
  }
  Task task = load_task({.run = {.program = "book"},
                         .model = options.model,
                         .dataset = options.digits ? "digits" : "cifar10",
                         .data_dir = options.data_dir});
  return {.train = std::move(task.train),
          .test = std::move(task.test),
          .make_model = [name = options.model, input = task.input](Device device) {
            std::unique_ptr<nn::Module> made = find_model(name).make(input);
            made->to(device);
            return made;
          }};
}

Recipe divided(Recipe recipe, const std::string& batches, int ranks) {
  if (batches == "fixed") recipe.batch_size /= ranks;
  if (batches == "scaled") recipe.lr *= ranks;
  return recipe;
}

Recipe recipe_of_gpus(const Options& options) {
  return on_digits({.epochs = 25,
                    .batch_size = options.digits ? 64 : 256,
                    .lr = 1e-4,
                    .workers = options.digits ? 0 : 2,
                    .prints = false},
                   options);
}

void check_batches(const Options& options, const Recipe& chapter, int ranks) {
  if (std::ranges::find(options.batches, "fixed") == options.batches.end()) return;
  const std::int64_t batch = options.batch_size.value_or(chapter.batch_size);
  DL_CHECK(batch % ranks == 0, kInvalidArgument,
           "--batch-size {} is not a multiple of {} ranks, which divide it with --global-batch "
           "fixed; change --batch-size or --ranks",
           batch, ranks);
}

GroupRun train_in_group(const Ref<collectives::ProcessGroup>& group, const Subject& subject,
                        Recipe recipe, std::uint64_t seed) {
  data::DistributedSampler sampler(
      subject.train->size(), {.num_replicas = group->size(), .rank = group->rank(), .seed = seed});
  recipe.group = group;
  recipe.sampler = &sampler;
  manual_seed(seed);
  const std::unique_ptr<nn::Module> model = subject.make_model(recipe.device);
  const data::DataLoaderOptions how = loading(recipe, /*shuffle=*/false);
  const std::int64_t epoch_steps = (sampler.size() + recipe.batch_size - 1) / recipe.batch_size;
  const Trained trained = train(*model, data::DataLoader(subject.train, sampler, how), recipe);
  GroupRun run{.ranks = group->size(),
               .rank_batch = recipe.batch_size,
               .steps = epoch_steps * recipe.epochs,
               .seconds = trained.seconds,
               .loss = mean_over_ranks(*group, trained.last_loss),
               .device = recipe.device.str()};
  if (group->rank() == 0) {
    run.percents = {test(*model, data::DataLoader(subject.test, how), recipe)};
  }
  return run;
}

GroupRun train_seeds(const Ref<collectives::ProcessGroup>& group, const Subject& subject,
                     const Options& options, const Recipe& chapter, const std::string& batches) {
  const Recipe recipe = divided(with_options(chapter, options), batches, group->size());
  GroupRun all;
  for (int i = 0; i < options.seeds; ++i) {
    GroupRun one = train_in_group(group, subject, recipe, kSeed + static_cast<std::uint64_t>(i));
    one.seconds += all.seconds;
    one.loss += all.loss;
    one.percents.insert(one.percents.begin(), all.percents.begin(), all.percents.end());
    all = std::move(one);
  }
  all.seconds /= options.seeds;
  all.loss /= options.seeds;
  return all;
}

std::optional<GroupRun> spawned(
    const Ranks& ranks, const std::function<GroupRun(const Ref<collectives::ProcessGroup>&)>& run) {
  const std::vector<std::string> results = spawn_for_results(
      [&](int rank) {
        set_num_threads(ranks.threads);
        init_process_group({.backend = ranks.backend});
        const GroupRun done = run(default_group());
        destroy_process_group();
        return rank == 0 ? nlohmann::json(done).dump() : "";
      },
      ranks.count);
  if (results.empty()) return std::nullopt;
  return nlohmann::json::parse(results.front()).get<GroupRun>();
}

std::optional<GroupRun> train_spawned(const Options& options, const Ranks& ranks,
                                      const Recipe& chapter, const std::string& batches) {
  return spawned(ranks, [&](const Ref<collectives::ProcessGroup>& group) {
    return train_seeds(group, load_subject(options), options, chapter, batches);
  });
}

bool is_launched_rank() {
  return !is_spawned() && collectives::find_launch({}, {}).told_by != "default";
}

bool trained_as_rank(const Options& options, const Recipe& chapter) {
  if (!is_launched_rank()) return false;
  init_process_group();
  const Ref<collectives::ProcessGroup> group = default_group();
  Recipe recipe =
      divided(with_options(chapter, options),
              options.batches.empty() ? "growing" : options.batches.front(), group->size());
  recipe.prints = true;
  train_in_group(group, load_subject(options), recipe, kSeed);
  destroy_process_group();
  return true;
}

int cores_for_ranks(const Options& options) {
  return options.threads > 0 ? options.threads
                             : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Options with_defaults_of_ranks(Options options) {
  options.digits = options.digits || options.data_dir.empty();
  const bool on_cpus = options.chapter == 9;
  if (options.device.empty() && !on_cpus) {
    options.device = cuda::device_count() > 0 ? "cuda" : "cpu";
  }
  DL_CHECK(!is_on_gpus(options) || cuda::device_count() > 0, kInvalidArgument,
           "--device {}: there is no GPU here; leave it out, or give cpu", options.device);
  return options;
}

bool is_on_gpus(const Options& options) {
  return !options.device.empty() && cuda::parse_device(options.device).type == DeviceType::kCUDA;
}

double GroupRun::percent() const {
  double sum = 0;
  for (const double one : percents) sum += one;
  return percents.empty() ? 0 : sum / static_cast<double>(percents.size());
}

void RunPlots::begin_line(std::string name) {
  seconds_.push_back({name, {}});
  percents_.push_back({std::move(name), {}});
}

void RunPlots::add(double x, const GroupRun& run) {
  seconds_.back().points.emplace_back(x, run.seconds);
  percents_.back().points.emplace_back(x, run.percent());
}

void RunPlots::write(const std::string& x_label, const std::string& path) const {
  const auto with_points = [](std::vector<PlotLine> lines) {
    std::erase_if(lines, [](const PlotLine& line) { return line.points.empty(); });
    return lines;
  };
  write_plots(
      {{.title = "Time of training",
        .x_label = x_label,
        .y_label = "seconds",
        .lines = with_points(seconds_)},
       {.title = "Accuracy", .x_label = x_label, .y_label = "%", .lines = with_points(percents_)}},
      path);
}

void print_run(const Options& options, const GroupRun& run, const Columns& before, bool is_first) {
  if (options.json) {
    nlohmann::ordered_json line{{"ranks", run.ranks}};
    for (const auto& [name, value] : before) line[name] = value;
    line["global_batch"] = run.global_batch();
    line["rank_batch"] = run.rank_batch;
    line["steps"] = run.steps;
    line["seconds"] = run.seconds;
    line["loss"] = run.loss;
    line["accuracy"] = run.percent();
    line["accuracies"] = run.percents;
    line["device"] = run.device;
    fmt::print("{}\n", line.dump());
  } else {
    std::string names;
    std::string values;
    for (const auto& [name, value] : before) {
      const std::size_t width = std::max<std::size_t>(8, name.size());
      names += fmt::format(" {:>{}}", name, width);
      values += fmt::format(" {:>{}}", value, width);
    }
    if (is_first) {
      fmt::print("{:>5}{} {:>6} {:>6} {:>6} {:>8} {:>8} {:>10}\n", "ranks", names, "batch",
                 "a rank", "steps", "seconds", "loss", "accuracy");
    }
    fmt::print("{:>5}{} {:>6} {:>6} {:>6} {:>8.2f} {:>8.4f} {:>8.2f} %", run.ranks, values,
               run.global_batch(), run.rank_batch, run.steps, run.seconds, run.loss, run.percent());
    if (run.percents.size() > 1) {
      const auto [least, most] = std::ranges::minmax(run.percents);
      fmt::print(" ({:.2f} to {:.2f})", least, most);
    }
    fmt::print("\n");
  }
  std::fflush(stdout);
}

}  // namespace dl::examples::book
