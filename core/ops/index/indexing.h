// Indexing: reading and writing the elements that a list of indices selects.
//
//     using namespace dl::indexing;
//     x.index({0, Slice(1, None), Ellipsis, tensor({2, 0})});  // Python's x[0, 1:, ..., [2, 0]]
//     x.index({x < 0}) = 0.0;                                  // x[x < 0] = 0
//
// Integers (also as 0-d tensors), slices, None and Ellipsis give views. Other integer tensors and
// masks (bool) give copies. Integer tensors are broadcast against each other, and their common
// shape replaces the indexed dimensions; it comes first if these are not adjacent. A mask replaces
// as many dimensions as it has. Negative indices count from the end. Throws kIndex for an index out
// of range, kShape for a mask or a value of a wrong shape.
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
inline constexpr NoneType None{};          // a new dimension of size 1; in a Slice: the default
inline constexpr EllipsisType Ellipsis{};  // all dimensions without an index of their own

// Elements start, start + step, ... below stop; out-of-range bounds are clipped.
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
  bool accumulate = false;  // add to the elements, also repeatedly
};

Tensor index(const Tensor& input, std::span<const TensorIndex> indices);
// Writes `value`, broadcast to the shape of index(input, indices) and converted to its dtype. If
// several values go to one element, it is undefined which of them remains.
Tensor& index_put_(Tensor& input, std::span<const TensorIndex> indices, const Tensor& value,
                   IndexPutOptions options = {});

// The result of x.index({...}): the elements, and their position in x. Assigning to the temporary
// writes into x; so do += and the like, with the checks of the in-place operations. A value may
// have leading sizes of 1, as in PyTorch (but not in index_put_()).
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
  // True if the elements are a view of x.
  bool is_view() const noexcept;

  Tensor from_;
  std::vector<TensorIndex> indices_;
};

// out[i][j] = input[index[i][j]][j] for dim = 0, and so on.
//   index  int64, as many dimensions as the input; no size above the input's, except along dim
Tensor gather(const Tensor& input, std::int64_t dim, const Tensor& index);
// `input` with input[index[i][j]][j] = source[i][j] for dim = 0, and so on; scatter_add() adds the
// source instead. The source has the input's dtype and no size below the index's. If several values
// go to one element, the last one remains.
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

// `input`, with the slices along `dim` that the index names set to slices of the source (the last
// one, if a slice is named twice), or to a value. The index is int64 and 1-d; in index_fill
// negative indices count from the end.
Tensor index_copy(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source);
Tensor index_fill(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& value);
Tensor index_fill(const Tensor& input, std::int64_t dim, const Tensor& index, Scalar value);
// Like scatter_add, but combines an element with its source elements by `reduce`: "sum", "prod",
// "mean", "amax" or "amin". Without include_self only the source elements count. Means of integers
// are rounded down.
Tensor scatter_reduce(const Tensor& input, std::int64_t dim, const Tensor& index,
                      const Tensor& source, std::string_view reduce,
                      ScatterReduceOptions options = {});
// `input` (broadcast with the mask), with the elements for which the mask (bool) is true replaced
// by the elements of the source in order. Throws kShape if the source has too few elements.
Tensor masked_scatter(const Tensor& input, const Tensor& mask, const Tensor& source);
// Counts each value 0, 1, ... in a 1-d tensor of integers >= 0, or sums the weights of its
// occurrences. Returns max(largest value + 1, minlength) counts: int64, or with weights float64
// (float32 for float32 weights). No gradient.
Tensor bincount(const Tensor& input, const Tensor& weights = {}, std::int64_t minlength = 0);

// Elements of the flattened input; the result has the index's shape.
Tensor take(const Tensor& input, const Tensor& index);
// Like gather, but all sizes except that of `dim` are broadcast.
Tensor take_along_dim(const Tensor& input, const Tensor& index, std::int64_t dim);
// The elements for which the mask (bool) is true, as a 1-d tensor; both are broadcast first.
Tensor masked_select(const Tensor& input, const Tensor& mask);
// The indices of the nonzero elements, in row-major order: int64 [count, input.dim()].
Tensor nonzero(const Tensor& input);
// One-hot rows for classes (integers): int64 [..., num_classes]. num_classes = -1: the largest
// class + 1.
Tensor one_hot(const Tensor& classes, std::int64_t num_classes = -1);

}  // namespace dl
