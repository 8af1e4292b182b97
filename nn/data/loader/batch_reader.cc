#include "nn/data/loader/batch_reader.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "nn/data/worker.h"

namespace dl::data {

std::optional<WorkerInfo> worker_info_of(int worker, const DataLoaderOptions& options,
                                         std::int64_t epoch_seed) {
  if (options.num_workers == 0) return std::nullopt;
  return WorkerInfo{.id = worker,
                    .num_workers = options.num_workers,
                    .seed = static_cast<std::uint64_t>(epoch_seed) + static_cast<unsigned>(worker)};
}

namespace {

Batch collated(const std::vector<Sample>& samples, const DataLoaderOptions& options) {
  if (!options.collate_fn) return default_collate(samples, {.pin_memory = options.pin_memory});
  Batch batch = options.collate_fn(samples);
  for (Tensor& field : batch.fields) {
    if (options.pin_memory && field.defined() && !field.is_pinned()) field = field.pin_memory();
  }
  return batch;
}

class OrderedBatches final : public BatchReader {
 public:
  OrderedBatches(std::shared_ptr<const Dataset> dataset, BatchOrder order,
                 const DataLoaderOptions& options, std::int64_t epoch_seed)
      : dataset_(std::move(dataset)),
        fields_(options.collate_fn ? std::vector<Field>() : dataset_->fields()),
        order_(std::move(order)),
        options_(options),
        epoch_seed_(epoch_seed) {}

  std::optional<std::int64_t> batches() const noexcept override { return order_.size(); }
  std::optional<std::int64_t> first_sample(std::int64_t number) const noexcept override {
    return order_.batch(number).front();
  }

  ReadBatch read(int worker, SamplePlace& place, const GoOn& go_on) override {
    const std::span<const std::int64_t> indices = order_.batch(place.batch);
    const auto count = static_cast<std::int64_t>(indices.size());
    detail::Draws draws(epoch_seed_, options_.default_generator_draws);
    const detail::ReadScope scope(worker_info_of(worker, options_, epoch_seed_), draws);
    ReadBatch result;
    for (const Field& field : fields_) {
      result.batch.fields.push_back(
          empty(batch_shape(count, field.shape),
                {.dtype = field.dtype, .pin_memory = options_.pin_memory}));
    }
    std::vector<Sample> samples;
    for (const std::int64_t index : indices) {
      place.sample = index;
      if (!go_on(index)) return result;
      DL_CHECK(index >= 0 && index < dataset_->size(), kIndex, "the dataset has {} samples",
               dataset_->size());
      draws.begin(index);
      try {
        if (fields_.empty()) {
          samples.push_back(dataset_->get(index));
        } else {
          read_in_place(index, result);
        }
        ++result.samples;
      } catch (const Error& error) {
        if (!options_.skip_corrupt || error.kind() != ErrorKind::kParse) throw;
        ++result.skipped;
        log::warning("data loader: {} is left out: {}", text_of(place), error.what());
      }
    }
    if (result.samples == 0) return result;
    if (fields_.empty()) {
      place.sample.reset();
      result.batch = collated(samples, options_);
    }
    for (Tensor& field : result.batch.fields) {
      if (!fields_.empty() && result.skipped > 0) field = field.narrow(0, 0, result.samples);
    }
    return result;
  }

 private:
  // Reads the sample into row result.samples of the batch's tensors.
  void read_in_place(std::int64_t index, const ReadBatch& result) const {
    std::vector<std::span<std::byte>> places(fields_.size());
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const std::size_t bytes = fields_[f].bytes();
      auto* const first = static_cast<std::byte*>(result.batch.fields[f].data_ptr());
      places[f] = {first + static_cast<std::size_t>(result.samples) * bytes, bytes};
    }
    dataset_->read(index, places);
  }

  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<Field> fields_;  // empty: samples come from get()
  const BatchOrder order_;
  const DataLoaderOptions options_;
  const std::int64_t epoch_seed_;
};

// A stream with this many corrupt samples in a row ends with an error.
constexpr int kMostCorruptInARow = 1000;

class StreamedBatches final : public BatchReader {
 public:
  StreamedBatches(std::shared_ptr<const IterableDataset> dataset, const DataLoaderOptions& options,
                  std::int64_t epoch_seed)
      : dataset_(std::move(dataset)), options_(options) {
    for (int worker = 0; worker < std::max(1, options.num_workers); ++worker) {
      workers_.push_back(std::make_unique<Worker>(worker_info_of(worker, options, epoch_seed),
                                                  options, epoch_seed));
      workers_.back()->draws.begin(worker);
    }
  }

  std::optional<std::int64_t> batches() const noexcept override { return std::nullopt; }
  std::optional<std::int64_t> first_sample(std::int64_t /*number*/) const noexcept override {
    return std::nullopt;
  }

  ReadBatch read(int number, SamplePlace& /*place*/, const GoOn& go_on) override {
    Worker& worker = *workers_[static_cast<std::size_t>(number)];
    const detail::ReadScope scope(worker.info, worker.draws);
    ReadBatch result;
    if (!worker.stream && !worker.ended) worker.stream = dataset_->iterate();
    std::vector<Sample> samples;
    while (!worker.ended && std::ssize(samples) < options_.batch_size) {
      if (!go_on(std::nullopt)) return result;
      try {
        std::optional<Sample> sample = worker.stream();
        worker.ended = !sample.has_value();
        if (sample) samples.push_back(std::move(*sample));
        worker.corrupt_in_a_row = 0;
      } catch (const Error& error) {
        if (!options_.skip_corrupt || error.kind() != ErrorKind::kParse) throw;
        if (++worker.corrupt_in_a_row > kMostCorruptInARow) throw;
        ++result.skipped;
        log::warning("data loader: a sample is left out: {}", error.what());
      }
    }
    const bool is_rest = std::ssize(samples) < options_.batch_size;
    if (samples.empty() || (is_rest && options_.drop_last)) {
      result.over = true;
      return result;
    }
    result.samples = std::ssize(samples);
    result.batch = collated(samples, options_);
    return result;
  }

 private:
  struct Worker {
    Worker(std::optional<WorkerInfo> worker_info, const DataLoaderOptions& options,
           std::int64_t epoch_seed)
        : info(worker_info), draws(epoch_seed, options.default_generator_draws) {}

    std::optional<WorkerInfo> info;
    detail::Draws draws;
    SampleStream stream{};
    bool ended = false;
    int corrupt_in_a_row = 0;
  };

  const std::shared_ptr<const IterableDataset> dataset_;
  const DataLoaderOptions options_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

std::unique_ptr<BatchReader> ordered_batches(std::shared_ptr<const Dataset> dataset,
                                             BatchOrder order, const DataLoaderOptions& options,
                                             std::int64_t epoch_seed) {
  return std::make_unique<OrderedBatches>(std::move(dataset), std::move(order), options,
                                          epoch_seed);
}

std::unique_ptr<BatchReader> streamed_batches(std::shared_ptr<const IterableDataset> dataset,
                                              const DataLoaderOptions& options,
                                              std::int64_t epoch_seed) {
  return std::make_unique<StreamedBatches>(std::move(dataset), options, epoch_seed);
}

}  // namespace dl::data
