// Chapter 6, table 6.1: what pruning of filters costs in accuracy, and what it gives in time.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <list>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "examples/book/chapters.h"
#include "examples/book/cnn.h"
#include "examples/book/images.h"
#include "examples/book/training.h"
#include "examples/support/plot.h"
#include "nn/functional/functional.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/utils/prune/filters.h"

namespace dl::examples::book {
namespace {

namespace prune = nn::utils::prune;
using Clock = std::chrono::steady_clock;

constexpr CNNOptions kForCifar{.channels = 3, .size = 32};
// A row of the table. Times are those of a training step on images of CIFAR-10's shape.
struct Row {
  int percent = 0;
  std::int64_t parameters = 0;        // of the network that learns
  std::int64_t cifar_parameters = 0;  // of the network whose steps are timed
  double step_ms = 0;
  double masked = 0;         // accuracy in percent
  double cut = 0;            // the same, if rounding changes no answer
  double after_epoch = 0;    // after one epoch more, of the cut network
  double epoch_seconds = 0;  // that epoch's
};

void cut_filters(CNN& model, const CNNOptions& of) {
  prune::speed_up(model, rand({1, of.channels, of.size, of.size}));
}

void mask_filters(CNN& model, const CNNOptions& of, int percent) {
  prune::prune_filters(model, zeros({1, of.channels, of.size, of.size}),
                       {{.op_types = {"Conv2d"}, .sparsity_per_layer = percent / 100.0}});
}

// A network for CIFAR-10 and its training step.
class TimedStep {
 public:
  TimedStep(int percent, const Recipe& recipe) : model_(kForCifar) {
    if (percent > 0) {
      mask_filters(model_, kForCifar, percent);
      cut_filters(model_, kForCifar);
    }
    model_.to(recipe.device);
    optimizer_.emplace(model_.parameters(),
                       optim::AdamOptions{.lr = recipe.lr, .weight_decay = recipe.weight_decay});
  }

  std::int64_t parameters() const { return model_.count_parameters(); }
  void run(const Tensor& images, const Tensor& labels) {
    const auto start = Clock::now();
    optimizer_->zero_grad();
    const Tensor loss = nn::functional::cross_entropy(model_(images), labels);
    loss.backward();
    optimizer_->step();
    static_cast<void>(loss.item<float>());  // waits for a GPU
    const std::chrono::duration<double, std::milli> took = Clock::now() - start;
    times_.push_back(took.count());
  }
  // Leaves out the first time, which includes allocations.
  double median_ms() const {
    std::vector<double> later(times_.begin() + 1, times_.end());
    std::ranges::sort(later);
    return later[later.size() / 2];
  }

 private:
  CNN model_;
  std::optional<optim::Adam> optimizer_;
  std::vector<double> times_;
};

// The networks take turns, so that all of them see the machine's slow moments.
void time_steps(std::vector<Row>& rows, const Recipe& recipe) {
  constexpr int kSteps = 16;
  const Tensor images =
      rand({recipe.batch_size, kForCifar.channels, kForCifar.size, kForCifar.size})
          .to(recipe.device);
  const Tensor labels = randint(0, kForCifar.classes, {recipe.batch_size}).to(recipe.device);
  std::list<TimedStep> steps;
  for (const Row& row : rows) steps.emplace_back(row.percent, recipe);
  for (int i = 0; i < kSteps; ++i) {
    for (TimedStep& step : steps) step.run(images, labels);
  }
  auto step = steps.begin();
  for (Row& row : rows) {
    row.step_ms = step->median_ms();
    row.cifar_parameters = step->parameters();
    ++step;
  }
}

void print_row(const Row& row, const Row& whole, bool json) {
  const double share = row.step_ms / whole.step_ms;
  if (json) {
    const nlohmann::ordered_json line{{"sparsity", row.percent / 100.0},
                                      {"parameters", row.parameters},
                                      {"cifar10_parameters", row.cifar_parameters},
                                      {"cifar10_step_ms", row.step_ms},
                                      {"cifar10_step_share", share},
                                      {"accuracy_masked", row.masked},
                                      {"accuracy_cut", row.cut},
                                      {"accuracy_after_epoch", row.after_epoch},
                                      {"epoch_seconds", row.epoch_seconds}};
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("{:>7} % {:>11} {:>11} {:>9.2f} {:>8.2f} {:>9.2f} {:>9.2f} {:>11.2f} {:>9.2f}\n",
               row.percent, row.parameters, row.cifar_parameters, row.step_ms, share, row.masked,
               row.cut, row.after_epoch, row.epoch_seconds);
  }
  std::fflush(stdout);
}

Plot plot_of(const std::vector<Row>& rows) {
  Plot plot{.title = "Pruning filters of the book's network",
            .x_label = "pruned filters of each convolution, %",
            .y_label = "%",
            .lines = {{"parameters", {}},
                      {"time of a step", {}},
                      {"accuracy, pruned", {}},
                      {"and an epoch more", {}}}};
  const Row& whole = rows.front();
  for (const Row& row : rows) {
    const double x = row.percent;
    const auto parameters = static_cast<double>(row.cifar_parameters);
    plot.lines[0].points.emplace_back(
        x, 100 * parameters / static_cast<double>(whole.cifar_parameters));
    plot.lines[1].points.emplace_back(x, 100 * row.step_ms / whole.step_ms);
    plot.lines[2].points.emplace_back(x, row.cut);
    plot.lines[3].points.emplace_back(x, row.after_epoch);
  }
  return plot;
}

}  // namespace

void chapter6(const Options& given) {
  Options options = given;
  options.digits = options.digits || options.data_dir.empty();
  const Images images = load_images(options, Set::kCifar10);
  const Recipe recipe = with_options(on_digits({.prints = false}, options), options);
  Recipe epoch_more = recipe;
  epoch_more.epochs = 1;
  const data::DataLoader loader(images.train, loading(recipe, /*shuffle=*/options.digits));
  const data::DataLoader tests(images.test, loading(recipe, /*shuffle=*/false));

  std::vector<Row> rows(1 + options.sparsities.size());
  for (std::size_t i = 1; i < rows.size(); ++i) rows[i].percent = options.sparsities[i - 1];
  std::ranges::sort(rows, {}, &Row::percent);
  manual_seed(kSeed);
  CNN trained(images.model);
  trained.to(recipe.device);
  train(trained, loader, recipe);
  time_steps(rows, recipe);
  if (!options.json) {
    fmt::print("{:>9} {:>11} {:>11} {:>18} {:>31} {:>9}\n", "", "parameters", "CIFAR-10's",
               "step of CIFAR-10's", "accuracy, %", "epoch");
    fmt::print("{:>9} {:>11} {:>11} {:>9} {:>8} {:>9} {:>9} {:>11} {:>9}\n", "sparsity", "",
               "parameters", "ms", "share", "masked", "cut", "epoch more", "s");
  }
  for (Row& row : rows) {
    CNN model(images.model);
    model.load_state_dict(trained.state_dict());
    if (row.percent > 0) mask_filters(model, images.model, row.percent);
    model.to(recipe.device);
    row.masked = accuracy_of(model, tests, recipe).percent;
    if (row.percent > 0) {
      model.to(Device{});
      cut_filters(model, images.model);
      model.to(recipe.device);
    }
    row.parameters = model.count_parameters();
    row.cut = accuracy_of(model, tests, recipe).percent;
    row.epoch_seconds = train(model, loader, epoch_more).epoch_seconds.front();
    row.after_epoch = accuracy_of(model, tests, recipe).percent;
    print_row(row, rows.front(), options.json);
  }
  if (!options.plot.empty()) write_plots({plot_of(rows)}, options.plot);
}

}  // namespace dl::examples::book
