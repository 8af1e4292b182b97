// Chapter 8: what a distributed training consists of. Collectives; a network whose replicas average
// their gradients; a network whose layers are on two devices; a checkpoint.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/init/init.h"
#include "collectives/init/spawn.h"
#include "collectives/tensor/tensor_api.h"
#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "core/ops/index/index.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "examples/book/chapters.h"
#include "examples/book/cnn.h"
#include "examples/book/images.h"
#include "examples/book/ranks/group_run.h"

namespace dl::examples::book {
namespace {

constexpr int kRanks = 4;  // of the figures
std::string text_of(const Tensor& vector) {
  return fmt::format("[{:g}]", fmt::join(std::span(vector.data<float>(), vector.numel()), " "));
}

// The figures 8.11 and 8.12: rank r has the vector [r + 1, r + 2, r + 3]. Rank 0 prints.
void show_collectives(collectives::ProcessGroup& group) {
  struct Operation {
    const char* name;
    collectives::ReduceOp op;
  };
  constexpr Operation kOperations[] = {{"sum", collectives::ReduceOp::kSum},
                                       {"product", collectives::ReduceOp::kProd},
                                       {"average", collectives::ReduceOp::kAvg},
                                       {"minimum", collectives::ReduceOp::kMin},
                                       {"maximum", collectives::ReduceOp::kMax}};
  const auto own = [&] {
    const auto first = static_cast<float>(group.rank() + 1);
    return arange(first, first + 3);
  };
  const auto show = [&](const std::string& what, const Tensor& result) {
    if (group.rank() == 0) fmt::print("{:<26} {}\n", what, text_of(result));
  };
  const Tensor all = empty({group.size(), 3});
  collectives::all_gather(group, all, own())->wait();
  for (int rank = 0; rank < group.size(); ++rank) {
    show(fmt::format("rank {} has", rank), all[rank]);
  }
  const Tensor reduced = own();
  collectives::reduce(group, reduced, {.op = collectives::ReduceOp::kSum, .root = 0})->wait();
  show("reduce to rank 0, sum", reduced);
  for (const auto& [name, op] : kOperations) {
    const Tensor vector = own();
    collectives::all_reduce(group, vector, {.op = op})->wait();
    show(fmt::format("all_reduce, {}", name), vector);
  }
  std::fflush(stdout);
}

// Inter-layer parallelism: layer1 and layer2 on one device, the linear layers on another. The first
// device can work on a batch's second half while the second one works on the first half.
class InterLayer : public nn::Module {
 public:
  InterLayer(const CNNOptions& options, Device first, Device second)
      : cnn_(register_module("cnn", CNN(options))), first_(first), second_(second) {
    for (const auto& [name, module] : cnn_.named_children()) {
      module->to(name.starts_with("layer") ? first_ : second_);
    }
  }

  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> between;
    for (const Tensor& part : x.chunk(2)) {
      between.push_back(cnn_.features(part.to(first_)).to(second_));
    }
    std::vector<Tensor> outputs;
    for (const Tensor& part : between) outputs.push_back(cnn_.classify(part));
    return cat(outputs);
  }

 private:
  CNN& cnn_;
  Device first_;
  Device second_;
};

Device next_gpu(Device gpu) {
  return {DeviceType::kCUDA, static_cast<std::int16_t>((gpu.index + 1) % cuda::device_count())};
}

Subject subject_in_stages(const Options& options, Device first, Device second) {
  Subject subject = load_subject(options);
  const CNNOptions images = load_images(options, Set::kCifar10).model;
  subject.make_model = [=](Device) { return std::make_unique<InterLayer>(images, first, second); };
  return subject;
}

Recipe recipe_of(const Options& options) {
  const Recipe chapter{.epochs = 1, .batch_size = 16, .prints = !options.json};
  return on_digits(chapter, options);
}

// The whole workflow on the ranks of the group.
GroupRun train_together(const Ref<collectives::ProcessGroup>& group, const Options& options) {
  if (!options.json) show_collectives(*group);
  std::optional<nn::CheckpointDir> checkpoints;
  if (!options.checkpoint_dir.empty()) checkpoints.emplace(options.checkpoint_dir);
  Recipe recipe = with_options(recipe_of(options), options);
  if (checkpoints) recipe.checkpoints = &*checkpoints;
  return train_in_group(group, load_subject(options), recipe, kSeed);
}

}  // namespace

void chapter8(const Options& given) {
  Options options = with_defaults_of_ranks(given);
  options.model = "book";  // which can be divided into stages
  if (is_launched_rank()) {
    init_process_group();
    train_together(default_group(), options);
    destroy_process_group();
    return;
  }
  const int ranks = options.ranks > 0 ? options.ranks : kRanks;
  const int cores = cores_for_ranks(options);
  const auto together = spawned(
      {ranks, std::max(1, cores / ranks)},
      [&](const Ref<collectives::ProcessGroup>& group) { return train_together(group, options); });
  // The other arrangements take the ranks' batches at once.
  Options joined = options;
  joined.batch_size = options.batch_size.value_or(recipe_of(options).batch_size) * ranks;
  const auto quietly = [&](const Ref<collectives::ProcessGroup>& group, const Subject& subject,
                           Device device) {
    Recipe recipe = with_options(recipe_of(joined), joined);
    recipe.prints = false;
    recipe.device = device;
    return train_in_group(group, subject, recipe, kSeed);
  };
  const auto alone = spawned({.threads = cores}, [&](const Ref<collectives::ProcessGroup>& group) {
    return quietly(group, load_subject(joined), with_options({}, joined).device);
  });
  const auto in_stages =
      spawned({.threads = cores}, [&](const Ref<collectives::ProcessGroup>& group) {
        const Device first = with_options({}, joined).device;
        const bool has_two = first.type == DeviceType::kCUDA && cuda::device_count() > 1;
        const Device second = has_two ? next_gpu(first) : first;
        if (!has_two && !joined.json) {
          fmt::print("Both stages are on {}, as there are no two GPUs\n", first.str());
        }
        return quietly(group, subject_in_stages(joined, first, second), second);
      });
  if (!together || !alone || !in_stages) return;
  print_run(options, *alone, {{"arrangement", "one process"}}, /*is_first=*/true);
  print_run(options, *together, {{"arrangement", "replicas"}}, /*is_first=*/false);
  print_run(options, *in_stages, {{"arrangement", "two stages"}}, /*is_first=*/false);
}

}  // namespace dl::examples::book
