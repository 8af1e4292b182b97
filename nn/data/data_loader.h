// DataLoader: a dataset, in a sampler's order, as batches of tensors.
//
//   DataLoader loader(dataset, sampler, {.batch_size = 64, .num_workers = 2, .drop_last = true});
//   for (const auto& [x, y] : loader) step(x, y);  // or const Batch& batch: batch[0], batch[1]
//
// The loader borrows the sampler, which must outlive it, and takes the dataset as a DatasetRef.
// Batches come in the sampler's order and hold the same bytes for any number of workers: a worker
// reads whole batches into their own memory, ahead of the loop by at most prefetch_factor batches a
// worker. Workers open no parallel region. A batch's tensors belong to the caller.
//
// Errors: an exception that a dataset throws comes out of next() at the batch where it happened, in
// order, and the epoch is then over. Its type is kept, whatever it is. The sample's index stands in
// the text of a dl::Error and of the standard's exceptions that hold only a text
// (std::out_of_range,
// ...); other exceptions come out as they were thrown, and the log names the sample. Exceptions of
// a sampler come out of epoch() unchanged.
//
// The end of an epoch stops its workers after the samples that they are reading. If a read() does
// not return within stop_timeout, the log names the sample and the thread is left behind. A dataset
// that the loader shares then lives until that read() returns; a borrowed one must live as long.
//
// Thread-safety: one thread uses a loader and its epochs. Epochs of one loader may overlap.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/tensor.h"
#include "nn/data/dataset_ref.h"
#include "nn/data/sampler.h"

namespace dl::data {

class BatchOrders;

// One tensor for each field of the dataset: [batch size, field's shape...].
struct Batch {
  std::vector<Tensor> fields;

  std::int64_t size() const { return fields.empty() ? 0 : fields.front().size(0); }
  // Throws kIndex.
  const Tensor& operator[](std::size_t field) const {
    DL_CHECK(field < fields.size(), kIndex, "Batch: there is no field {} among {}", field,
             fields.size());
    return fields[field];
  }
};

// A batch of two fields has two names: const auto& [x, y] = batch. Throws kInvalidArgument for a
// batch of another number of fields.
template <std::size_t I>
const Tensor& get(const Batch& batch) {
  DL_CHECK(batch.fields.size() == 2, kInvalidArgument,
           "Batch: [x, y] names 2 fields, the dataset has {}; use batch[0], batch[1], ...",
           batch.fields.size());
  return batch.fields[I];
}

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  // Without a sampler: a new order each epoch, from default_generator() as PyTorch's; else 0, 1,
  // ...
  bool shuffle = false;
  int num_workers = 0;      // 0: next() reads, on the caller's thread
  int prefetch_factor = 2;  // batches that each worker reads ahead
  bool drop_last = false;   // leave out a last batch that is not full
  // Batches lie in pinned memory, for copies to a CUDA device that nobody waits for.
  bool pin_memory = false;
  // How long next() waits for one batch before it throws kTimeout.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  // How long the end of an epoch waits for samples that are being read.
  std::chrono::nanoseconds stop_timeout = std::chrono::seconds(30);
};

class DataLoader {
 public:
  // One pass over the sampler's order. Made by DataLoader; movable.
  class Epoch {
   public:
    Epoch(Epoch&&) noexcept;
    Epoch& operator=(Epoch&&) noexcept;
    ~Epoch();
    // The next batch; nullopt at the end. Throws what a dataset threw, kTimeout, naming the
    // sample that did not come (after 5 s of waiting the log names it), and kInvalidArgument for an
    // epoch that was moved from.
    std::optional<Batch> next();

   private:
    friend class DataLoader;
    class Impl;
    class Workers;
    Epoch(std::shared_ptr<Impl> impl, int workers);
    // Shared with workers, of which one may be left behind.
    std::shared_ptr<Impl> impl_;
    std::unique_ptr<Workers> workers_;
  };

  class Iterator {
   public:
    explicit Iterator(Epoch epoch) : epoch_(std::move(epoch)), batch_(epoch_.next()) {}
    // Throws kInvalidArgument at the end.
    const Batch& operator*() const {
      DL_CHECK(batch_.has_value(), kInvalidArgument, "DataLoader: the iterator is at the end");
      return *batch_;
    }
    Iterator& operator++() {
      batch_.reset();  // its memory can serve for the next one
      batch_ = epoch_.next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return !batch_.has_value(); }

   private:
    Epoch epoch_;
    std::optional<Batch> batch_;
  };

  // The order is the sampler's, the batch sampler's, or by options.shuffle. Throws kInvalidArgument
  // unless batch_size and prefetch_factor are at least 1, num_workers at least 0, and the dataset
  // is not null and has fields whose sizes are at least 0; for shuffle beside a sampler; and for
  // shuffle, batch_size or drop_last beside a batch sampler.
  DataLoader(DatasetRef dataset, Sampler& sampler, DataLoaderOptions options = {});
  DataLoader(DatasetRef dataset, BatchSampler& sampler, DataLoaderOptions options = {});
  explicit DataLoader(DatasetRef dataset, DataLoaderOptions options = {});
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;
  ~DataLoader();

  // Batches in an epoch, by the sampler's size().
  std::int64_t size() const noexcept;
  // Starts a pass: draws one number from default_generator(), as torch.utils.data.DataLoader does,
  // so that the same seed gives its shuffles; then takes the sampler's order and starts the
  // workers. Throws what the sampler throws, kInvalidArgument where its size() is not the number of
  // its indices(), and kIo where a worker does not start.
  Epoch epoch() const;
  Iterator begin() const { return Iterator(epoch()); }
  static std::default_sentinel_t end() { return std::default_sentinel; }

 private:
  // Shared with workers that are left behind.
  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
  std::unique_ptr<BatchOrders> orders_;
};

}  // namespace dl::data

template <>
struct std::tuple_size<dl::data::Batch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, dl::data::Batch> {
  using type = dl::Tensor;
};
