// DataLoader: a dataset, in a sampler's order, as batches of tensors.
//
//   DataLoader loader(dataset, sampler, {.batch_size = 64, .num_workers = 2, .drop_last = true});
//   for (const Batch& batch : loader) step(batch[0], batch[1]);
//
// The loader borrows dataset and sampler, which must outlive it. Batches come in the sampler's
// order and hold the same bytes for any number of workers: a worker reads whole batches into their
// own memory, ahead of the loop by at most prefetch_factor batches a worker. Workers open no
// parallel region. A batch's tensors belong to whoever holds them.
//
// An exception that a dataset throws comes out of next() at the batch where it happened, in order,
// with the sample's index in its text; the epoch is then over. Leaving an epoch early stops its
// workers, after the samples they are at; where one takes long, the log names it.
//
// Thread-safety: one thread uses a loader and its epochs. Epochs of one loader may overlap.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "core/tensor/tensor.h"
#include "nn/data/dataset.h"
#include "nn/data/sampler.h"

namespace dl::data {

// One tensor for each field of the dataset: [batch size, field's shape...].
struct Batch {
  std::vector<Tensor> fields;

  std::int64_t size() const { return fields.front().size(0); }
  const Tensor& operator[](std::size_t field) const { return fields[field]; }
};

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  int num_workers = 0;      // 0: next() reads, on the caller's thread
  int prefetch_factor = 2;  // batches that each worker reads ahead
  bool drop_last = false;   // leave out a last batch that is not full
  // Batches lie in pinned memory, for copies to a CUDA device that nobody waits for.
  bool pin_memory = false;
  // How long next() waits for one batch before it throws kTimeout.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
};

class DataLoader {
 public:
  // One pass over the sampler's order. Made by DataLoader; movable.
  class Epoch {
   public:
    Epoch(Epoch&&) noexcept;
    Epoch& operator=(Epoch&&) noexcept;
    ~Epoch();
    // The next batch; nullopt at the end. Throws what a dataset threw, and kTimeout, naming the
    // sample that did not come; after 5 s of waiting it says so in the log.
    std::optional<Batch> next();

   private:
    friend class DataLoader;
    class Impl;
    explicit Epoch(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
  };

  class Iterator {
   public:
    explicit Iterator(Epoch epoch) : epoch_(std::move(epoch)), batch_(epoch_.next()) {}
    const Batch& operator*() const { return batch_.value(); }
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

  // Throws kInvalidArgument unless batch_size and prefetch_factor are at least 1 and num_workers at
  // least 0.
  DataLoader(const Dataset& dataset, Sampler& sampler, DataLoaderOptions options = {});

  // Batches in an epoch.
  std::int64_t size() const noexcept;
  // Starts a pass: draws one number from default_generator(), as torch.utils.data.DataLoader does,
  // so that the same seed gives its shuffles; then takes the sampler's order and starts the
  // workers.
  Epoch epoch() const;
  Iterator begin() const { return Iterator(epoch()); }
  static std::default_sentinel_t end() { return std::default_sentinel; }

 private:
  const Dataset& dataset_;
  Sampler& sampler_;
  DataLoaderOptions options_;
};

}  // namespace dl::data
