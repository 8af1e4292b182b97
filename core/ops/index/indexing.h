// Reading and writing elements that indices name.
//
//     using namespace dl::indexing;
//     x.index({0, Slice(1, None), Ellipsis, tensor({2, 0})});  // Python's x[0, 1:, ..., [2, 0]]
//     x.index({x < 0}) = 0.0;                                  // x[x < 0] = 0
//
// Integers, also as tensors without dimensions, slices, None and Ellipsis give views. Other tensors
// of integers and masks (bool) give copies: integer tensors are broadcast against each other, and
// their common shape takes the place of their dimensions, or stands first where another dimension
// lies between them; a mask takes the place of as many dimensions as it has. Negative indices count
// from the end. Throws kIndex for an index that is out of range, kShape for a mask or a value whose
// shape does not fit.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl {

namespace indexing {

struct NoneType {};
struct EllipsisType {};
inline constexpr NoneType None{};          // a new dimension of size 1; in a Slice: left out
inline constexpr EllipsisType Ellipsis{};  // as many whole dimensions as the others leave

// Elements start, start + step, ... below stop; bounds beyond the ends are clipped.
class Slice {
 public:
  struct Bound {
    template <std::integral T>
    constexpr Bound(T place) noexcept  // NOLINT(google-explicit-constructor)
        : value(static_cast<std::int64_t>(place)) {}
    constexpr Bound(NoneType) noexcept {}  // NOLINT(google-explicit-constructor)
    std::optional<std::int64_t> value;
  };
  constexpr explicit Slice(Bound from = None, Bound to = None, Bound by = None) noexcept
      : start(from.value.value_or(0)),
        stop(to.value.value_or(INT64_MAX)),
        step(by.value.value_or(1)) {}
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;
};

}  // namespace indexing

// One index: an integer, a slice, None, Ellipsis (also "..."), or a tensor of integers or bool.
class TensorIndex {
 public:
  using Value = std::variant<std::int64_t, indexing::Slice, indexing::NoneType,
                             indexing::EllipsisType, Tensor>;
  // NOLINTBEGIN(google-explicit-constructor)
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  TensorIndex(T index) : value_(static_cast<std::int64_t>(index)) {}
  TensorIndex(indexing::Slice slice) : value_(slice) {}
  TensorIndex(indexing::NoneType none) : value_(none) {}
  TensorIndex(indexing::EllipsisType ellipsis) : value_(ellipsis) {}
  TensorIndex(const Tensor& index) : value_(index) {}
  TensorIndex(const char* dots);  // throws kInvalidArgument unless it is "..."
  // NOLINTEND(google-explicit-constructor)

  const Value& value() const noexcept { return value_; }

 private:
  Value value_;
};

struct IndexPutOptions {
  bool accumulate = false;  // add to what is there, also several times
};

Tensor index(const Tensor& input, std::span<const TensorIndex> indices);
// Writes `value`, broadcast to the shape of index(input, indices) and converted to its dtype. Which
// of several values for one element stays is not said.
Tensor& index_put_(Tensor& input, std::span<const TensorIndex> indices, const Tensor& value,
                   IndexPutOptions options = {});

// What x.index({...}) gives: the elements, and where they are from. Assigning to it, as long as it
// is not given a name, writes into that tensor; so do += and the like, with the checks of add_()
// and its kin. A value may have sizes of 1 before the elements' dimensions, as in PyTorch, which
// refuses them in index_put_().
class IndexedTensor : public Tensor {
 public:
  IndexedTensor(const Tensor& elements, const Tensor& from, std::vector<TensorIndex> indices)
      : Tensor(elements), from_(from), indices_(std::move(indices)) {}
  IndexedTensor(const IndexedTensor&) = default;
  IndexedTensor(IndexedTensor&&) noexcept = default;
  ~IndexedTensor() = default;

  using Tensor::operator=;
  IndexedTensor& operator=(const IndexedTensor&) & = default;
  IndexedTensor& operator=(IndexedTensor&&) & noexcept = default;
  void operator=(const IndexedTensor& value) && { put(value); }
  void operator=(const Tensor& value) && { put(value); }
  void operator=(Scalar value) && { put(value); }
#define DL_ASSIGNMENT(sign, name)                                         \
  void operator sign(const Tensor& other)&& { put(name##_(other)); }      \
  void operator sign(Scalar other)&& { put(name##_(other)); }             \
  Tensor& operator sign(const Tensor & other)& { return name##_(other); } \
  Tensor& operator sign(Scalar other)& { return name##_(other); }
  DL_ASSIGNMENT(+=, add)
  DL_ASSIGNMENT(-=, sub)
  DL_ASSIGNMENT(*=, mul)
  DL_ASSIGNMENT(/=, div)
#undef DL_ASSIGNMENT

 private:
  void put(const Tensor& value);
  void put(Scalar value);
  // Whether the elements are a view of the tensor that they are from.
  bool is_view() const noexcept;

  Tensor from_;
  std::vector<TensorIndex> indices_;
};

// out[i][j] = input[index[i][j]][j] for dim = 0, and so on.
//   index  int64, as many dimensions as the input, no size above the input's but that of dim
Tensor gather(const Tensor& input, std::int64_t dim, const Tensor& index);
// `input` with input[index[i][j]][j] = source[i][j] for dim = 0, and so on; or with the source
// added there. The source has the input's dtype and no size below the index's. Of several values
// for one element the last stays.
Tensor scatter(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source);
Tensor scatter(const Tensor& input, std::int64_t dim, const Tensor& index, Scalar value);
Tensor scatter_add(const Tensor& input, std::int64_t dim, const Tensor& index,
                   const Tensor& source);
Tensor& scatter_(Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source);
Tensor& scatter_(Tensor& input, std::int64_t dim, const Tensor& index, Scalar value);
Tensor& scatter_add_(Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source);
// `input` with alpha times the i-th slice of the source along `dim` added to slice index[i].
//   index  int64 of one dimension
Tensor index_add(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source,
                 Scalar alpha = 1);
Tensor& index_add_(Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source,
                   Scalar alpha = 1);

// `input` with the slices along `dim` that the index names set to slices of the source (of the last
// for a slice named twice), or to a value. The index is int64 of one dimension; in index_fill
// numbers below 0 count from the end.
Tensor index_copy(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source);
Tensor index_fill(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& value);
Tensor index_fill(const Tensor& input, std::int64_t dim, const Tensor& index, Scalar value);
// scatter_add, but `reduce` says what becomes of an element and those of the source that the index
// sends to it: "sum", "prod", "mean", "amax" or "amin". Without include_self only those of the
// source count. Means of integers are rounded down.
Tensor scatter_reduce(const Tensor& input, std::int64_t dim, const Tensor& index,
                      const Tensor& source, std::string_view reduce,
                      ScatterReduceOptions options = {});
// `input` (broadcast with the mask) with the elements of the source, in their order, at the places
// where the mask (bool) is true. Throws kShape for a source with fewer elements than places.
Tensor masked_scatter(const Tensor& input, const Tensor& mask, const Tensor& source);
// How often each number from 0 on is among those of a tensor of one dimension (integers, none below
// 0), or the sum of their weights: int64, or float64 (float32 for weights of float32), as many as
// the largest number says and at least minlength. No gradient.
Tensor bincount(const Tensor& input, const Tensor& weights = {}, std::int64_t minlength = 0);

// Elements of the flattened input; the result has the index's shape.
Tensor take(const Tensor& input, const Tensor& index);
// As gather, but sizes other than that of `dim` are broadcast.
Tensor take_along_dim(const Tensor& input, const Tensor& index, std::int64_t dim);
// The elements where the mask (bool) is true, after both are broadcast: one dimension.
Tensor masked_select(const Tensor& input, const Tensor& mask);
// The indices of the elements that are not 0, in their order: int64 [count, input.dim()].
Tensor nonzero(const Tensor& input);
// The classes (integers) as rows of 0 and a 1: int64 [..., num_classes]; -1: as many classes as the
// largest says.
Tensor one_hot(const Tensor& classes, std::int64_t num_classes = -1);

}  // namespace dl
