#include "nn/data/loader/batch_order.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace dl::data {
namespace {

class FixedBatches final : public BatchOrders {
 public:
  FixedBatches(std::unique_ptr<Sampler> owned, Sampler& sampler, std::int64_t batch_size,
               bool drop_last)
      : owned_(std::move(owned)),
        sampler_(sampler),
        batch_size_(batch_size),
        drop_last_(drop_last) {}

  std::int64_t size() const noexcept override { return batches(sampler_.size()); }

  BatchOrder next() override {
    const std::int64_t announced = sampler_.size();
    BatchOrder order{.samples = sampler_.indices()};
    DL_CHECK(static_cast<std::int64_t>(order.samples.size()) == announced, kInvalidArgument,
             "DataLoader: the sampler's size() is {}, but its indices() returned {}; both must be "
             "the number of samples in an epoch",
             announced, order.samples.size());
    for (std::int64_t b = 1; b <= batches(announced); ++b) {
      order.ends.push_back(static_cast<std::size_t>(std::min(b * batch_size_, announced)));
    }
    return order;
  }

 private:
  std::int64_t batches(std::int64_t samples) const noexcept {
    const bool has_rest = !drop_last_ && samples % batch_size_ != 0;
    return samples / batch_size_ + (has_rest ? 1 : 0);
  }

  std::unique_ptr<Sampler> owned_;
  Sampler& sampler_;
  std::int64_t batch_size_;
  bool drop_last_;
};

class SampledBatches final : public BatchOrders {
 public:
  explicit SampledBatches(BatchSampler& sampler) : sampler_(sampler) {}

  std::int64_t size() const noexcept override { return sampler_.size(); }

  BatchOrder next() override {
    const std::int64_t announced = sampler_.size();
    const std::vector<std::vector<std::int64_t>> batches = sampler_.batches();
    DL_CHECK(static_cast<std::int64_t>(batches.size()) == announced, kInvalidArgument,
             "DataLoader: the batch sampler's size() is {}, but its batches() returned {}; both "
             "must be the number of batches in an epoch",
             announced, batches.size());
    BatchOrder order;
    for (const std::vector<std::int64_t>& batch : batches) {
      DL_CHECK(!batch.empty(), kInvalidArgument,
               "DataLoader: batch {} of the batch sampler holds no sample", order.size());
      order.samples.insert(order.samples.end(), batch.begin(), batch.end());
      order.ends.push_back(order.samples.size());
    }
    return order;
  }

 private:
  BatchSampler& sampler_;
};

}  // namespace

std::unique_ptr<BatchOrders> fixed_batches(Sampler& sampler, std::int64_t batch_size,
                                           bool drop_last) {
  return std::make_unique<FixedBatches>(nullptr, sampler, batch_size, drop_last);
}

std::unique_ptr<BatchOrders> fixed_batches(std::unique_ptr<Sampler> sampler,
                                           std::int64_t batch_size, bool drop_last) {
  Sampler& own = *sampler;
  return std::make_unique<FixedBatches>(std::move(sampler), own, batch_size, drop_last);
}

std::unique_ptr<BatchOrders> sampled_batches(BatchSampler& sampler) {
  return std::make_unique<SampledBatches>(sampler);
}

}  // namespace dl::data
