// Datasets made of others: a part of one, several in a row, and a random division.
#pragma once

#include <concepts>
#include <cstdint>
#include <vector>

#include "core/random/generator.h"
#include "nn/data/dataset_ref.h"

namespace dl::data {

// The samples of `dataset` with these indices, in this order. torch.utils.data.Subset.
class Subset final : public Dataset {
 public:
  // Throws kInvalidArgument for a null dataset, kIndex for an index that is none of it.
  Subset(DatasetRef dataset, std::vector<std::int64_t> indices);

  std::int64_t size() const noexcept override { return static_cast<std::int64_t>(indices_.size()); }
  const std::vector<Field>& fields() const noexcept override { return dataset_->fields(); }
  void read(std::int64_t index, std::span<const std::span<std::byte>> out) const override;

  const std::vector<std::int64_t>& indices() const noexcept { return indices_; }

 private:
  DatasetRef dataset_;
  std::vector<std::int64_t> indices_;
};

// The samples of the first dataset, then those of the second, and so on. Their fields have the same
// dtypes and shapes; the names are those of the first. torch.utils.data.ConcatDataset.
class ConcatDataset final : public Dataset {
 public:
  // Throws kInvalidArgument if there is none, one is null, or fields differ.
  explicit ConcatDataset(std::vector<DatasetRef> datasets);

  std::int64_t size() const noexcept override { return ends_.back(); }
  const std::vector<Field>& fields() const noexcept override { return datasets_.front()->fields(); }
  void read(std::int64_t index, std::span<const std::span<std::byte>> out) const override;

 private:
  std::vector<DatasetRef> datasets_;
  std::vector<std::int64_t> ends_;  // sizes of the datasets up to each, summed
};

// A number of samples, or a share of them.
class SplitSize {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  template <std::integral T>
  SplitSize(T samples) : samples_(static_cast<std::int64_t>(samples)) {}
  template <std::floating_point T>
  SplitSize(T share) : share_(share), is_share_(true) {}
  // NOLINTEND(google-explicit-constructor)

  bool is_share() const noexcept { return is_share_; }
  double share() const noexcept { return share_; }
  std::int64_t samples() const noexcept { return samples_; }

 private:
  std::int64_t samples_ = 0;
  double share_ = 0;
  bool is_share_ = false;
};

// Divides a dataset at random, with torch.utils.data.random_split's indices:
//
//     Generator generator(42);
//     auto parts = random_split(dataset, {0.8, 0.2}, generator);  // or {800, 200}
//
// Shares sum to 1; what remains after rounding down goes to the first parts, one sample each.
// Throws kInvalidArgument for a null dataset, for numbers that do not sum to its size, and for
// shares that do not sum to 1 or stand beside numbers.
std::vector<Subset> random_split(DatasetRef dataset, const std::vector<SplitSize>& lengths,
                                 Generator& generator = default_generator());

}  // namespace dl::data
