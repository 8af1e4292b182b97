// Trainings of several ranks, for the chapters that compare numbers of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/api/process_group.h"
#include "examples/book/options.h"
#include "examples/book/training.h"
#include "examples/support/plot.h"
#include "nn/data/dataset.h"
#include "nn/module/module.h"

namespace dl::examples::book {

// What the ranks train.
struct Subject {
  std::shared_ptr<const data::Dataset> train;
  std::shared_ptr<const data::Dataset> test;
  std::function<std::unique_ptr<nn::Module>(Device)> make_model;  // on the device
};
// The network and images that the options name: the book's network with the book's transform, or
// one of train_image's networks with its preparation of images. Throws what the readers throw.
Subject load_subject(const Options& options);

// One training of a group of ranks.
struct GroupRun {
  int ranks = 1;
  std::int64_t rank_batch = 0;     // samples a step of each rank
  std::int64_t steps = 0;          // of all epochs
  double seconds = 0;              // of training
  double loss = 0;                 // of the last step, the mean over the ranks
  std::vector<double> percents{};  // of the test images that rank 0 recognises, for each seed
  std::string device{};            // of rank 0

  std::int64_t global_batch() const { return rank_batch * ranks; }
  double percent() const;  // the mean of the seeds; `seconds` and `loss` are means, too
};

// `recipe` for one of `ranks` ranks; `batches` is a name of --global-batch. growing: each keeps the
// batch; scaled: also multiplies the learning rate by the ranks (Goyal et al. 2017); fixed: they
// divide the batch.
Recipe divided(Recipe recipe, const std::string& batches, int ranks);
// Throws kInvalidArgument if a fixed batch that the options ask for cannot be divided.
void check_batches(const Options& options, const Recipe& chapter, int ranks);

// The recipe of chapters 10 and 11.
Recipe recipe_of_gpus(const Options& options);

// Collective: the group's ranks train a new network together, and rank 0 tests it.
GroupRun train_in_group(const Ref<collectives::ProcessGroup>& group, const Subject& subject,
                        Recipe recipe, std::uint64_t seed);
// Collective: calls train_in_group() for each seed of the options, with the chapter's recipe
// divided among the ranks. Returns the means.
GroupRun train_seeds(const Ref<collectives::ProcessGroup>& group, const Subject& subject,
                     const Options& options, const Recipe& chapter, const std::string& batches);

// Which ranks spawned() starts.
struct Ranks {
  int count = 1;
  int threads = 1;  // of each
  std::string backend = "auto";
};
// Starts ranks, in which `run` trains with the default group. Returns what it returned on rank 0;
// nullopt in ranks that a later call starts: all processes must come to the same calls.
std::optional<GroupRun> spawned(
    const Ranks& ranks, const std::function<GroupRun(const Ref<collectives::ProcessGroup>&)>& run);
// train_seeds() of the options' subject on such ranks.
std::optional<GroupRun> train_spawned(const Options& options, const Ranks& ranks,
                                      const Recipe& chapter, const std::string& batches);

// True if dlrun, torchrun, mpirun or srun has started this process as a rank, and not spawned().
bool is_launched_rank();
// If so: trains with all of its ranks, prints the book's lines on rank 0, and returns true. Without
// --global-batch, each rank keeps the batch.
bool trained_as_rank(const Options& options, const Recipe& chapter);

// The cores that ranks share: --threads, else all of this machine. The same in all processes, as
// num_threads() is not.
int cores_for_ranks(const Options& options);

// The options with the defaults of chapters on several ranks: the digits without --data-dir, and,
// but for chapter 9, GPUs if they are there.
Options with_defaults_of_ranks(Options options);
bool is_on_gpus(const Options& options);

// Plots of time and accuracy, with a line for each kind of run.
class RunPlots {
 public:
  // The next runs are points of a new line.
  void begin_line(std::string name);
  void add(double x, const GroupRun& run);
  // Writes an SVG file. A line without points is left out.
  void write(const std::string& x_label, const std::string& path) const;

 private:
  std::vector<PlotLine> seconds_;
  std::vector<PlotLine> percents_;
};

// A line of a chapter's table: columns of its own, then those of the run.
using Columns = std::vector<std::pair<std::string, std::string>>;  // name and value
// Prints the run as one line, after the names of the columns if it is the first; with --json as an
// object.
void print_run(const Options& options, const GroupRun& run, const Columns& before, bool is_first);

}  // namespace dl::examples::book
