#include "nn/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/random/distributions.h"

namespace dl::data {
namespace {

std::vector<std::int64_t> counted(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

std::vector<std::int64_t> permuted(std::int64_t n, Generator& generator) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  random::fill_randperm(order, generator);
  return order;
}

}  // namespace

SequentialSampler::SequentialSampler(std::int64_t dataset_size) : dataset_size_(dataset_size) {
  DL_CHECK(dataset_size >= 0, kInvalidArgument,
           "SequentialSampler: the dataset has {} samples, wanted at least 0", dataset_size);
}

std::vector<std::int64_t> SequentialSampler::indices() {
  return counted(dataset_size_);
}

RandomSampler::RandomSampler(std::int64_t dataset_size, RandomSamplerOptions options)
    : dataset_size_(dataset_size),
      num_samples_(options.num_samples.value_or(dataset_size)),
      options_(options) {
  DL_CHECK(dataset_size > 0, kInvalidArgument,
           "RandomSampler: the dataset has {} samples, wanted at least 1 to draw from",
           dataset_size);
  DL_CHECK(num_samples_ > 0, kInvalidArgument,
           "RandomSampler: num_samples is {}, wanted at least 1", num_samples_);
}

std::vector<std::int64_t> RandomSampler::indices() {
  Generator own;
  Generator* generator = options_.generator;
  if (generator == nullptr) {
    std::int64_t seed = 0;
    random::fill_random(std::span(&seed, 1), default_generator());
    own.manual_seed(static_cast<std::uint64_t>(seed));
    generator = &own;
  }
  std::vector<std::int64_t> order;
  if (options_.replacement) {
    order.resize(static_cast<std::size_t>(num_samples_));
    random::fill_randint(std::span(order), 0, dataset_size_, *generator);
    return order;
  }
  order.reserve(static_cast<std::size_t>(num_samples_));
  // If the sizes divide evenly, PyTorch draws one permutation more than it needs. So does this, to
  // leave the generator in the same state.
  for (std::int64_t left = num_samples_; left >= 0; left -= dataset_size_) {
    const std::vector<std::int64_t> next = permuted(dataset_size_, *generator);
    order.insert(order.end(), next.begin(), next.begin() + std::min(left, dataset_size_));
  }
  return order;
}

SubsetRandomSampler::SubsetRandomSampler(std::vector<std::int64_t> indices, Generator* generator)
    : subset_(std::move(indices)), generator_(generator) {}

std::vector<std::int64_t> SubsetRandomSampler::indices() {
  std::vector<std::int64_t> order =
      permuted(size(), generator_ ? *generator_ : default_generator());
  for (std::int64_t& index : order) index = subset_[static_cast<std::size_t>(index)];
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples,
                                             WeightedRandomSamplerOptions options)
    : weights_(std::move(weights)), num_samples_(num_samples), options_(options) {
  DL_CHECK(num_samples >= 1, kInvalidArgument,
           "WeightedRandomSampler: num_samples is {}, wanted at least 1", num_samples);
  random::check_multinomial(std::span<const double>(weights_), num_samples, options.replacement);
}

std::vector<std::int64_t> WeightedRandomSampler::indices() {
  Generator& generator = options_.generator ? *options_.generator : default_generator();
  std::vector<std::int64_t> drawn(static_cast<std::size_t>(num_samples_));
  random::fill_multinomial(drawn, std::span<const double>(weights_), options_.replacement,
                           generator);
  return drawn;
}

DistributedSampler::DistributedSampler(std::int64_t dataset_size, DistributedSamplerOptions options)
    : dataset_size_(dataset_size), options_(options) {
  DL_CHECK(dataset_size >= 0, kInvalidArgument,
           "DistributedSampler: the dataset has {} samples, wanted at least 0", dataset_size);
  DL_CHECK(options.rank >= 0 && options.rank < options.num_replicas, kInvalidArgument,
           "DistributedSampler: got rank {} of {}, wanted 0 <= rank < num_replicas", options.rank,
           options.num_replicas);
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  resume({.epoch = epoch, .offset = 0});
}

void DistributedSampler::resume(const Cursor& cursor) {
  DL_CHECK(cursor.offset >= 0 && cursor.offset <= dataset_size_, kInvalidArgument,
           "DistributedSampler: the cursor stands at sample {} of epoch {}, but an epoch has {}",
           cursor.offset, cursor.epoch, dataset_size_);
  cursor_ = cursor;
}

std::int64_t DistributedSampler::size() const noexcept {
  const std::int64_t left = dataset_size_ - cursor_.offset;
  const std::int64_t ranks = options_.num_replicas;
  switch (options_.remainder) {
    case Remainder::kPad:
      return (left + ranks - 1) / ranks;
    case Remainder::kDrop:
      return left / ranks;
    case Remainder::kUneven:
      return (left + ranks - 1 - options_.rank) / ranks;
  }
  return 0;
}

std::vector<std::int64_t> DistributedSampler::indices() {
  std::vector<std::int64_t> order;
  if (options_.shuffle) {
    Generator generator(options_.seed + static_cast<std::uint64_t>(cursor_.epoch));
    order = permuted(dataset_size_, generator);
  } else {
    order = counted(dataset_size_);
  }
  std::vector<std::int64_t> mine(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    // Padding begins with the epoch's first samples, as if the run had not been stopped.
    const std::int64_t position =
        options_.rank + static_cast<std::int64_t>(i) * options_.num_replicas;
    mine[i] = order[static_cast<std::size_t>((cursor_.offset + position) % dataset_size_)];
  }
  return mine;
}

}  // namespace dl::data
