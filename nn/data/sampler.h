// Samplers: the order in which an epoch visits the samples of a dataset.
//
// A sampler is a value-like object that a training loop owns and a DataLoader borrows; indices() is
// called once an epoch. Thread-safety: none; one thread uses a sampler.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/random/generator.h"

namespace dl::data {

class Sampler {
 public:
  virtual ~Sampler() = default;
  // The number of indices that indices() returns.
  virtual std::int64_t size() const noexcept = 0;
  // The order of one epoch. A random sampler draws anew at each call.
  virtual std::vector<std::int64_t> indices() = 0;
};

// 0, 1, ..., dataset_size - 1.
class SequentialSampler final : public Sampler {
 public:
  explicit SequentialSampler(std::int64_t dataset_size);
  std::int64_t size() const noexcept override { return dataset_size_; }
  std::vector<std::int64_t> indices() override;

 private:
  std::int64_t dataset_size_;
};

struct RandomSamplerOptions {
  bool replacement = false;
  std::optional<std::int64_t> num_samples{};  // nullopt: the dataset's size
  // The source of the order. Null: each epoch draws a seed from default_generator() for a generator
  // of its own, as PyTorch does, so that an epoch takes only one number from that stream.
  Generator* generator = nullptr;
};

// torch.utils.data.RandomSampler, index by index.
class RandomSampler final : public Sampler {
 public:
  // Throws kInvalidArgument if there is nothing to draw.
  explicit RandomSampler(std::int64_t dataset_size, RandomSamplerOptions options = {});
  std::int64_t size() const noexcept override { return num_samples_; }
  std::vector<std::int64_t> indices() override;

 private:
  std::int64_t dataset_size_;
  std::int64_t num_samples_;
  RandomSamplerOptions options_;
};

// `indices` in a random order: torch.utils.data.SubsetRandomSampler, index by index.
class SubsetRandomSampler final : public Sampler {
 public:
  // generator: borrowed; null: each epoch draws from default_generator().
  explicit SubsetRandomSampler(std::vector<std::int64_t> indices, Generator* generator = nullptr);
  std::int64_t size() const noexcept override { return static_cast<std::int64_t>(subset_.size()); }
  std::vector<std::int64_t> indices() override;

 private:
  std::vector<std::int64_t> subset_;
  Generator* generator_;
};

struct WeightedRandomSamplerOptions {
  bool replacement = true;
  Generator* generator = nullptr;  // null: default_generator()
};

// num_samples indices, each drawn with a probability proportional to its weight:
// torch.utils.data.WeightedRandomSampler, index by index if drawn with replacement
// (fill_multinomial() says what differs otherwise).
class WeightedRandomSampler final : public Sampler {
 public:
  // Throws kInvalidArgument unless num_samples is at least 1 and the weights are finite, at least
  // 0, not all 0 and, without replacement, num_samples of them more than 0.
  WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples,
                        WeightedRandomSamplerOptions options = {});
  std::int64_t size() const noexcept override { return num_samples_; }
  std::vector<std::int64_t> indices() override;

 private:
  std::vector<double> weights_;
  std::int64_t num_samples_;
  WeightedRandomSamplerOptions options_;
};

// Chooses the samples of each batch of an epoch; batches may differ in size, such as buckets of
// similar lengths.
class BatchSampler {
 public:
  virtual ~BatchSampler() = default;
  // The number of batches that batches() returns.
  virtual std::int64_t size() const noexcept = 0;
  virtual std::vector<std::vector<std::int64_t>> batches() = 0;
};

// What happens with the remaining samples if the number of ranks does not divide the dataset's
// size.
enum class Remainder : std::uint8_t {
  kPad,     // repeat the first samples of the order, so that all ranks get equally many
  kDrop,    // drop them, so that all ranks get equally many (drop_last)
  kUneven,  // visit each once: the first ranks get one more; for evaluation
};

struct DistributedSamplerOptions {
  int num_replicas = 1;  // the world size
  int rank = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on every rank
  Remainder remainder = Remainder::kPad;
};

// The position of a run inside an epoch. It does not depend on the rank: the order of an epoch
// depends only on seed and epoch, and `offset` counts samples of that order over all ranks. So a
// run that continues with another number of ranks visits exactly the remaining samples.
struct Cursor {
  std::int64_t epoch = 0;
  std::int64_t offset = 0;
  friend bool operator==(const Cursor&, const Cursor&) noexcept = default;
};

// torch.utils.data.DistributedSampler, index by index: the order is that of
// randperm(generator seeded with seed + epoch), rank r takes positions r, r + num_replicas, ...
class DistributedSampler final : public Sampler {
 public:
  // Throws kInvalidArgument unless 0 <= rank < num_replicas.
  explicit DistributedSampler(std::int64_t dataset_size, DistributedSamplerOptions options = {});

  // Call it before each epoch; otherwise every epoch has the order of the first.
  void set_epoch(std::int64_t epoch);
  // Continues in mid-epoch, after the first `cursor.offset` samples of the order. Throws
  // kInvalidArgument if the offset is outside the dataset.
  void resume(const Cursor& cursor);

  std::int64_t size() const noexcept override;
  std::vector<std::int64_t> indices() override;

 private:
  std::int64_t dataset_size_;
  DistributedSamplerOptions options_;
  Cursor cursor_{};
};

}  // namespace dl::data
