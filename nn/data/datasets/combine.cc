#include "nn/data/datasets/combine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/random/distributions.h"

namespace dl::data {
namespace {

bool are_alike(const std::vector<Field>& a, const std::vector<Field>& b) {
  return std::ranges::equal(a, b, [](const Field& x, const Field& y) {
    return x.dtype == y.dtype && x.shape == y.shape;
  });
}

std::vector<std::int64_t> sizes_of_parts(std::int64_t samples,
                                         const std::vector<SplitSize>& lengths) {
  std::vector<std::int64_t> sizes;
  const auto shares = std::ranges::count_if(lengths, &SplitSize::is_share);
  if (shares == 0) {
    for (const SplitSize& length : lengths) {
      DL_CHECK(length.samples() >= 0, kInvalidArgument,
               "random_split: a part of {} samples, wanted at least 0", length.samples());
      sizes.push_back(length.samples());
    }
    const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    DL_CHECK(sum == samples, kInvalidArgument,
             "random_split: the lengths sum to {}, but the dataset has {} samples", sum, samples);
    return sizes;
  }
  double sum = 0;
  for (const SplitSize& length : lengths) {
    DL_CHECK(length.is_share(), kInvalidArgument,
             "random_split: got shares and numbers of samples; wanted one kind");
    DL_CHECK(length.share() >= 0 && length.share() <= 1, kInvalidArgument,
             "random_split: a share is {}, wanted 0 to 1", length.share());
    sum += length.share();
    sizes.push_back(
        static_cast<std::int64_t>(std::floor(static_cast<double>(samples) * length.share())));
  }
  DL_CHECK(std::abs(sum - 1) <= 1e-9, kInvalidArgument,
           "random_split: the shares sum to {}, wanted 1", sum);
  std::int64_t left = samples - std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % sizes.size(), --left) ++sizes[i];
  return sizes;
}

}  // namespace

Subset::Subset(DatasetRef dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  DL_CHECK(dataset_.share() != nullptr, kInvalidArgument, "Subset: the dataset is null");
  for (const std::int64_t index : indices_) {
    DL_CHECK(index >= 0 && index < dataset_->size(), kIndex,
             "Subset: there is no sample {} among {}", index, dataset_->size());
  }
}

std::int64_t Subset::place_of(std::int64_t index) const {
  DL_CHECK(index >= 0 && index < size(), kIndex, "Subset: there is no sample {} among {}", index,
           size());
  return indices_[static_cast<std::size_t>(index)];
}

Sample Subset::get(std::int64_t index) const {
  return dataset_->get(place_of(index));
}

void Subset::read(std::int64_t index, std::span<const std::span<std::byte>> out) const {
  dataset_->read(place_of(index), out);
}

ConcatDataset::ConcatDataset(std::vector<DatasetRef> datasets) : datasets_(std::move(datasets)) {
  DL_CHECK(!datasets_.empty(), kInvalidArgument, "ConcatDataset: there is no dataset");
  std::int64_t end = 0;
  for (std::size_t i = 0; i < datasets_.size(); ++i) {
    DL_CHECK(datasets_[i].share() != nullptr, kInvalidArgument, "ConcatDataset: dataset {} is null",
             i);
    ends_.push_back(end += datasets_[i]->size());
    if (datasets_[i]->fields().empty()) first_shown_ = i;
  }
  for (std::size_t i = 0; i < datasets_.size(); ++i) {
    DL_CHECK(fields().empty() || are_alike(datasets_[i]->fields(), fields()), kInvalidArgument,
             "ConcatDataset: the samples of dataset {} have other dtypes or shapes than those of "
             "dataset 0",
             i);
  }
}

ConcatDataset::Place ConcatDataset::place_of(std::int64_t index) const {
  DL_CHECK(index >= 0 && index < size(), kIndex, "ConcatDataset: there is no sample {} among {}",
           index, size());
  const auto end = std::ranges::upper_bound(ends_, index);
  const Dataset& dataset = *datasets_[static_cast<std::size_t>(end - ends_.begin())];
  return {.dataset = dataset, .index = index - (*end - dataset.size())};
}

Sample ConcatDataset::get(std::int64_t index) const {
  const Place place = place_of(index);
  return place.dataset.get(place.index);
}

void ConcatDataset::read(std::int64_t index, std::span<const std::span<std::byte>> out) const {
  const Place place = place_of(index);
  place.dataset.read(place.index, out);
}

std::vector<Subset> random_split(const DatasetRef& dataset, const std::vector<SplitSize>& lengths,
                                 Generator& generator) {
  DL_CHECK(dataset.share() != nullptr, kInvalidArgument, "random_split: the dataset is null");
  const std::int64_t samples = dataset->size();
  const std::vector<std::int64_t> sizes = sizes_of_parts(samples, lengths);
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  random::fill_randperm(order, generator);
  std::vector<Subset> parts;
  auto from = order.begin();
  for (const std::int64_t size : sizes) {
    parts.emplace_back(dataset, std::vector(from, from + size));
    from += size;
  }
  return parts;
}

}  // namespace dl::data
