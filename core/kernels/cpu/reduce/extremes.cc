// Extremes with their indices. If a result's elements are dense, the reduction's row finds each
// block's extreme, and the index is searched in the best block only.
#include <array>
#include <limits>
#include <type_traits>

#include "core/device/parallel.h"
#include "core/kernels/cpu/reduce/rows.h"
#include "core/kernels/cpu/reduce/source.h"
#include "core/kernels/declared/reduce.h"
#include "core/kernels/strided_loop.h"
#include "core/tensor/dtype_types.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kExtremeGrain = 32 * 1024;  // elements read, worth a thread
constexpr std::int64_t kSearched = Source::kPacked;
constexpr std::int64_t kFewColumns = 64;

template <typename T>
bool beats(T a, T b, bool largest) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return b == b;
  }
  return largest ? a > b : a < b;
}

template <typename T>
std::int64_t place_of(const T* in, std::int64_t count, T value) noexcept {
  if constexpr (std::is_same_v<T, float>) {
    return find_first(in, count, value);
  } else {
    std::int64_t i = 0;
    while (i < count && in[i] != value && (value == value || in[i] == in[i])) ++i;
    return i;
  }
}

// The extreme of one result so far, and its index.
template <typename T>
struct Best {
  T value{};
  std::int64_t place = -1;
};
template <typename T>
using TotalOf = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;

template <typename T>
class Finding {
 public:
  Finding(ExtremeFn fn, const Tensor& input, std::int64_t dim, const Tensor& values,
          const Tensor& indices)
      : largest_(fn == ExtremeFn::kMax),
        source_(input),
        reduction_(reduction_of(facts(fn).value)),
        size_(input.size(dim)),
        step_(input.stride(dim)),
        values_(static_cast<char*>(values.data_ptr())),
        value_width_(static_cast<std::int64_t>(size_of(values.dtype()))),
        store_(store_from(source_.compute_dtype, values.dtype())),
        indices_(indices.data<std::int64_t>()) {
    if constexpr (std::is_same_v<T, float>) {
      across_ = vector_rows_of(facts(fn).value).across;
    } else {
      across_ = std::is_same_v<T, double> ? reduction_.f64.across : reduction_.i64.across;
    }
    const Shape& shape = values.sizes();
    Strides from = input.strides();
    from[static_cast<std::size_t>(dim)] = 0;
    kept_ = make_loop<3>(shape, {values.strides(), indices.strides(), from});
  }

  void run() const {
    if (kept_.count == 1) return one_result();
    const bool down = kept_.inner_stride(2) == 1 && kept_.inner_size() > 1 && step_ != 1 &&
                      size_ <= std::numeric_limits<std::int32_t>::max();
    const std::int64_t grain =
        std::max<std::int64_t>(down ? kFewColumns : 1, kExtremeGrain / size_);
    parallel_for(kept_.count, grain, [&](std::int64_t begin, std::int64_t end) {
      walk(kept_, begin, end, [&](const std::int64_t* at, std::int64_t length) {
        if (down) {
          for (std::int64_t i = 0; i < length; i += kResults) {
            go_down(
                {at[0] + i * kept_.inner_stride(0), at[1] + i * kept_.inner_stride(1), at[2] + i},
                std::min(kResults, length - i));
          }
        } else {
          for (std::int64_t i = 0; i < length; ++i) {
            const Best<T> best = go_across(at[2] + i * kept_.inner_stride(2), 0, size_);
            store_(&best.value, values_ + (at[0] + i * kept_.inner_stride(0)) * value_width_, 1, 1);
            indices_[at[1] + i * kept_.inner_stride(1)] = best.place;
          }
        }
      });
    });
  }

 private:
  // Several threads read one long line. It is cut into chunks whose size depends on its length
  // only.
  void one_result() const {
    constexpr std::int64_t kMostPartsOfOne = 64;
    const std::int64_t parts = std::clamp<std::int64_t>(size_ / kExtremeGrain, 1, kMostPartsOfOne);
    std::array<Best<T>, kMostPartsOfOne> best;
    parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) {
        best[static_cast<std::size_t>(k)] =
            go_across(0, size_ * k / parts, size_ * (k + 1) / parts);
      }
    });
    for (std::int64_t k = 1; k < parts; ++k) {
      const Best<T>& other = best[static_cast<std::size_t>(k)];
      if (beats(other.value, best[0].value, largest_)) best[0] = other;
    }
    store_(&best[0].value, values_, 1, 1);
    *indices_ = best[0].place;
  }

  Best<T> go_across(std::int64_t from, std::int64_t begin, std::int64_t end) const {
    Source::Pack pack;
    Best<T> best;
    for (std::int64_t i = begin; i < end; i += kSearched) {
      const std::int64_t length = std::min(kSearched, end - i);
      source_.for_blocks(from + i * step_, step_, length, pack,
                         [&](const void* in, std::int64_t count, std::int64_t first) {
                           look(static_cast<const T*>(in), count, i + first, best);
                         });
    }
    // The index within the block that begins at best.place.
    const std::int64_t length = std::min(kSearched, end - best.place);
    source_.for_blocks(from + best.place * step_, step_, length, pack,
                       [&](const void* in, std::int64_t count, std::int64_t) {
                         best.place += place_of(static_cast<const T*>(in), count, best.value);
                       });
    return best;
  }

  void look(const T* in, std::int64_t count, std::int64_t first, Best<T>& best) const {
    TotalOf<T> total;
    if constexpr (std::is_floating_point_v<T>) {
      reduction_.begin(&total, 1);
    } else {
      reduction_.begin_whole(&total, 1);
    }
    across_({.in = in,
             .count = count,
             .step = 0,
             .results = 1,
             .totals = &total,
             .pivots = nullptr,
             .p = 0});
    const T value = static_cast<T>(total);
    if (best.place < 0 || beats(value, best.value, largest_)) best = {value, first};
  }

  // Adjacent results, whose values, indices and first elements begin at `at`.
  void go_down(const std::array<std::int64_t, 3>& at, std::int64_t columns) const {
    Source::Pack pack;
    std::array<T, kResults> best;
    std::array<std::int32_t, kResults> places{};
    source_.load(source_.at(at[2]), 1, best.data(), columns);
    source_.for_rows(at[2] + step_, step_, size_ - 1, columns, pack,
                     [&](const void* in, std::int64_t rows, std::int64_t step, std::int64_t first) {
                       rows_down(static_cast<const T*>(in), rows, step, columns, first + 1,
                                 best.data(), places.data());
                     });
    store_(best.data(), values_ + at[0] * value_width_, kept_.inner_stride(0), columns);
    for (std::int64_t c = 0; c < columns; ++c) {
      indices_[at[1] + c * kept_.inner_stride(1)] = places[static_cast<std::size_t>(c)];
    }
  }

  void rows_down(const T* in, std::int64_t rows, std::int64_t step, std::int64_t columns,
                 std::int64_t first, T* best, std::int32_t* places) const {
    if constexpr (std::is_same_v<T, float>) {
      extremes_down({in, rows, step, columns, best, places, first, largest_});
    } else {
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          if (!beats(in[r * step + c], best[c], largest_)) continue;
          best[c] = in[r * step + c];
          places[c] = static_cast<std::int32_t>(first + r);
        }
      }
    }
  }

  bool largest_;
  Source source_;
  const Reduction& reduction_;
  ReduceRow across_ = nullptr;
  std::int64_t size_;
  std::int64_t step_;
  char* values_;
  std::int64_t value_width_;
  Store store_;
  std::int64_t* indices_;
  StridedLoop<3> kept_;  // values, indices, in
};

}  // namespace

void extreme(ExtremeFn fn, const Tensor& input, std::int64_t dim, const Tensor& values,
             const Tensor& indices) {
  if (values.numel() == 0) return;
  switch (compute_dtype_of(input.dtype())) {
    case DType::kF32:
      return Finding<float>(fn, input, dim, values, indices).run();
    case DType::kF64:
      return Finding<double>(fn, input, dim, values, indices).run();
    default:
      return Finding<std::int64_t>(fn, input, dim, values, indices).run();
  }
}

void max_backward(const Tensor& grad, const Tensor& indices, std::int64_t dim, const Tensor& out) {
  if (grad.numel() == 0) return;
  const std::int64_t step = out.stride(dim);
  Strides to_line = out.strides();
  to_line[static_cast<std::size_t>(dim)] = 0;
  visit_floating(grad.dtype(), "max", [&]<typename T>() {
    const T* const from = grad.data<T>();
    const std::int64_t* const where = indices.data<std::int64_t>();
    T* const to = out.data<T>();
    const auto loop = make_loop<3>(grad.sizes(), {to_line, grad.strides(), indices.strides()});
    walk(loop, 0, loop.count, [&](const std::int64_t* at, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t index = where[at[2] + i * loop.inner_stride(2)];
        to[at[0] + i * loop.inner_stride(0) + index * step] =
            from[at[1] + i * loop.inner_stride(1)];
      }
    });
  });
}

}  // namespace dl::kernels::cpu
