// worker_info() and sample_generator(): the worker that a dataset or transform runs on while a
// DataLoader reads a sample, and the sample's random numbers.
//
// Thread-safety: any thread may call; each gets the answer for itself.
#pragma once

#include <cstdint>
#include <optional>

#include "core/random/generator.h"

namespace dl::data {

struct WorkerInfo {
  int id = 0;  // in [0, num_workers)
  int num_workers = 1;
  std::uint64_t seed = 0;  // differs between workers and epochs
};

// As torch.utils.data.get_worker_info(): nullopt if the calling thread is not a loader's worker.
std::optional<WorkerInfo> worker_info() noexcept;

// The generator for random transforms. While a loader reads a sample of a Dataset, the generator's
// seed is made of the epoch's seed and the sample's index, so that results do not depend on the
// number of workers. An IterableDataset has one generator per worker and epoch. Without a loader,
// or with DataLoaderOptions::default_generator_draws, it is default_generator(). The reference is
// valid until the sample is read.
Generator& sample_generator();

namespace detail {

// The state behind sample_generator(); one thread uses it.
class Draws {
 public:
  // use_default: generator() returns default_generator().
  Draws(std::int64_t epoch_seed, bool use_default) noexcept
      : epoch_seed_(epoch_seed), use_default_(use_default) {}

  // Starts the random numbers of this sample.
  void begin(std::int64_t sample) noexcept {
    sample_ = sample;
    seeded_ = false;
  }
  Generator& generator() noexcept;

 private:
  const std::int64_t epoch_seed_;
  const bool use_default_;
  std::int64_t sample_ = 0;
  bool seeded_ = false;  // own_ has sample_'s seed; set on first use, as seeding costs 1 us
  Generator own_;
};

// Marks its thread, while it lives, as one that reads samples for a loader.
class ReadScope {
 public:
  // info: nullopt if the thread is not a worker. draws: borrowed.
  ReadScope(std::optional<WorkerInfo> info, Draws& draws) noexcept;
  ReadScope(const ReadScope&) = delete;
  ReadScope& operator=(const ReadScope&) = delete;
  ~ReadScope();

  const std::optional<WorkerInfo>& info() const noexcept { return info_; }
  Draws& draws() const noexcept { return draws_; }

 private:
  const std::optional<WorkerInfo> info_;
  Draws& draws_;
  ReadScope* const outer_;
};

}  // namespace detail

}  // namespace dl::data
