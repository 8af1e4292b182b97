// Sample and Batch: lists of tensors; and default_collate(), which makes a batch of samples.
// Values; one thread at a time uses an object.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/tensor.h"

namespace dl::data {

// What Dataset::get() returns: `return {x, y};`, a tuple, a pair or a vector of tensors.
struct Sample {
  std::vector<Tensor> fields{};

  // NOLINTBEGIN(google-explicit-constructor)
  Sample() = default;
  Sample(std::initializer_list<Tensor> tensors) : fields(tensors) {}
  Sample(std::vector<Tensor> tensors) : fields(std::move(tensors)) {}
  Sample(const Tensor& tensor) : fields{tensor} {}
  template <std::convertible_to<Tensor>... T>
  Sample(const std::tuple<T...>& tensors)
      : fields(std::apply([](const T&... t) { return std::vector<Tensor>{t...}; }, tensors)) {}
  template <std::convertible_to<Tensor> A, std::convertible_to<Tensor> B>
  Sample(const std::pair<A, B>& tensors) : fields{tensors.first, tensors.second} {}
  // NOLINTEND(google-explicit-constructor)

  // Throws kIndex for a field that does not exist.
  const Tensor& operator[](std::size_t field) const {
    DL_CHECK(field < fields.size(), kIndex, "Sample: there is no field {} among {}", field,
             fields.size());
    return fields[field];
  }
};

// One tensor [batch size, field's shape...] for each field of the samples, unless a collate
// function makes other tensors.
struct Batch {
  std::vector<Tensor> fields;

  // The first dimension of field 0; 0 without fields.
  std::int64_t size() const { return fields.empty() ? 0 : fields.front().size(0); }
  // Throws kIndex for a field that does not exist.
  const Tensor& operator[](std::size_t field) const {
    DL_CHECK(field < fields.size(), kIndex, "Batch: there is no field {} among {}", field,
             fields.size());
    return fields[field];
  }
};

// For structured bindings of a batch of two fields: const auto& [x, y] = batch, auto [x, y] =
// batch. Throws kInvalidArgument for a batch with another number of fields.
template <std::size_t I, typename B>
  requires std::same_as<std::remove_cvref_t<B>, Batch>
auto& get(B&& batch) {
  DL_CHECK(batch.fields.size() == 2, kInvalidArgument,
           "Batch: [x, y] names 2 fields, the dataset has {}; use batch[0], batch[1], ...",
           batch.fields.size());
  return batch.fields[I];
}

// Makes a batch of at least one sample. A loader's workers call it concurrently.
using CollateFunction = std::function<Batch(const std::vector<Sample>& samples)>;

struct CollateOptions {
  bool pin_memory = false;
};

// [samples, shape...]: a batch's tensor of a field whose samples have `shape`.
Shape batch_shape(std::int64_t samples, std::span<const std::int64_t> shape);

// Stacks each field along a new first dimension, as torch.utils.data.default_collate does: fields
// [shape...] on the CPU become one tensor [samples, shape...] of the same dtype. Throws
// kInvalidArgument if there is no sample or no field, or if a field is undefined, not on the CPU or
// requires gradients, which a batch does not keep; kShape if samples differ in the number of fields
// or in a shape; kDType if they differ in a dtype.
Batch default_collate(const std::vector<Sample>& samples, CollateOptions options = {});

}  // namespace dl::data

template <>
struct std::tuple_size<dl::data::Batch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, dl::data::Batch> {
  using type = dl::Tensor;
};
