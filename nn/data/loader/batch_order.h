// BatchOrder: the samples of each batch of a DataLoader's epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nn/data/sampler.h"

namespace dl::data {

// Batch b holds samples[ends[b - 1]] to samples[ends[b] - 1].
struct BatchOrder {
  std::vector<std::int64_t> samples{};
  std::vector<std::size_t> ends{};

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(ends.size()); }
  std::span<const std::int64_t> batch(std::int64_t number) const noexcept {
    const auto b = static_cast<std::size_t>(number);
    const std::size_t begin = b == 0 ? 0 : ends[b - 1];
    return std::span(samples).subspan(begin, ends[b] - begin);
  }
};

// Gives the order of batches in each of a loader's epochs.
class BatchOrders {
 public:
  virtual ~BatchOrders() = default;
  virtual std::int64_t size() const noexcept = 0;  // batches of an epoch
  // Throws what a sampler throws, and kInvalidArgument if its size() is not what it returned.
  virtual BatchOrder next() = 0;
};

// Batches of batch_size samples each, the last one of fewer unless drop_last. Borrows the sampler.
std::unique_ptr<BatchOrders> fixed_batches(Sampler& sampler, std::int64_t batch_size,
                                           bool drop_last);
// Owns the sampler.
std::unique_ptr<BatchOrders> fixed_batches(std::unique_ptr<Sampler> sampler,
                                           std::int64_t batch_size, bool drop_last);
// The batches of `sampler`, which it borrows.
std::unique_ptr<BatchOrders> sampled_batches(BatchSampler& sampler);

}  // namespace dl::data
