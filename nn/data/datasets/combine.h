// Datasets composed of other datasets: Subset, ConcatDataset, random_split().
//
// They own or borrow the others as DatasetRef says. Thread-safety: as for Dataset.
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
  // Throws kInvalidArgument for a null dataset, kIndex for an index outside the dataset.
  Subset(DatasetRef dataset, std::vector<std::int64_t> indices);

  std::int64_t size() const noexcept override { return static_cast<std::int64_t>(indices_.size()); }
  Sample get(std::int64_t index) const override;
  const std::vector<Field>& fields() const noexcept override { return dataset_->fields(); }
  void read(std::int64_t index, std::span<const std::span<std::byte>> out) const override;

  const std::vector<std::int64_t>& indices() const noexcept { return indices_; }

 private:
  std::int64_t place_of(std::int64_t index) const;

  DatasetRef dataset_;
  std::vector<std::int64_t> indices_;
};

// The samples of the first dataset, then those of the second, and so on.
// torch.utils.data.ConcatDataset. If all datasets have fields(), the dtypes and shapes have to be
// equal, and the names are those of the first. If one has no fields(), the loader calls get().
class ConcatDataset final : public Dataset {
 public:
  // Throws kInvalidArgument if the list is empty, a dataset is null, or fields differ.
  explicit ConcatDataset(std::vector<DatasetRef> datasets);

  std::int64_t size() const noexcept override { return ends_.back(); }
  Sample get(std::int64_t index) const override;
  const std::vector<Field>& fields() const noexcept override {
    return datasets_[first_shown_]->fields();
  }
  void read(std::int64_t index, std::span<const std::span<std::byte>> out) const override;

 private:
  struct Place {
    const Dataset& dataset;
    std::int64_t index;
  };
  Place place_of(std::int64_t index) const;

  std::vector<DatasetRef> datasets_;
  std::size_t first_shown_ = 0;     // a dataset without fields(), if there is one; else the first
  std::vector<std::int64_t> ends_;  // running sums of the datasets' sizes
};

// A number of samples (an integer), or a fraction of them (a floating number, 0 to 1).
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
// Fractions must sum to 1. They are rounded down, and the remaining samples go to the first parts,
// one sample each. Throws kInvalidArgument for a null dataset, for numbers that do not sum to its
// size, for fractions that do not sum to 1, and for a mix of fractions and numbers.
std::vector<Subset> random_split(const DatasetRef& dataset, const std::vector<SplitSize>& lengths,
                                 Generator& generator = default_generator());

}  // namespace dl::data
