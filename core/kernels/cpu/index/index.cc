#include "core/kernels/declared/index.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/device/parallel.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kGrainBytes = 256 * 1024;  // copied bytes worth a thread

// A contiguous tensor viewed as [outer, size, inner] around one dimension.
struct Around {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;
};

Around around(const Tensor& tensor, std::int64_t dim) {
  Around result;
  result.size = tensor.size(dim);
  for (std::int64_t d = 0; d < dim; ++d) result.outer *= tensor.size(d);
  for (std::int64_t d = dim + 1; d < tensor.dim(); ++d) result.inner *= tensor.size(d);
  return result;
}

}  // namespace

void index_select(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& out) {
  const Around from = around(input, dim);
  const std::int64_t count = index.numel();
  const std::int64_t* const where = index.data<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    DL_CHECK(where[i] >= 0 && where[i] < from.size, kIndex,
             "index_select: index {} at position {} is out of range for dimension {} of {}",
             where[i], i, dim, input.sizes().str());
  }
  const auto row = static_cast<std::int64_t>(size_of(input.dtype())) * from.inner;
  if (row == 0) return;
  const char* const source = static_cast<const char*>(input.data_ptr());
  char* const target = static_cast<char*>(out.data_ptr());
  // kRow: the bytes of a row, if known at compile time, so that one instruction copies a row.
  const auto copy_rows = [&]<std::int64_t kRow>(std::integral_constant<std::int64_t, kRow>,
                                                std::int64_t begin, std::int64_t end) {
    const std::int64_t bytes = kRow > 0 ? kRow : row;
    while (begin < end) {
      const std::int64_t first = begin % count;
      const std::int64_t last = std::min(count, first + end - begin);
      const char* const block = source + begin / count * from.size * bytes;
      char* to = target + begin * bytes;
      for (std::int64_t i = first; i < last; ++i, to += bytes) {
        std::memcpy(to, block + where[i] * bytes, static_cast<std::size_t>(bytes));
      }
      begin += last - first;
    }
  };
  parallel_for(from.outer * count, std::max<std::int64_t>(1, kGrainBytes / row),
               [&](std::int64_t begin, std::int64_t end) {
                 switch (row) {
                   case 2:
                     return copy_rows(std::integral_constant<std::int64_t, 2>(), begin, end);
                   case 4:
                     return copy_rows(std::integral_constant<std::int64_t, 4>(), begin, end);
                   case 8:
                     return copy_rows(std::integral_constant<std::int64_t, 8>(), begin, end);
                   default:
                     return copy_rows(std::integral_constant<std::int64_t, 0>(), begin, end);
                 }
               });
}

void index_select_backward(const Tensor& grad, std::int64_t dim, const Tensor& index,
                           const Tensor& out) {
  const Around to = around(out, dim);
  const std::int64_t count = index.numel();
  const std::int64_t* const where = index.data<std::int64_t>();
  visit_floating(grad.dtype(), "index_select", [&]<typename T>() {
    using M = OpMath<T>;
    const T* const from = grad.data<T>();
    T* const sums = out.data<T>();
    // Divided by outer block: rows of one block may be added to the same row.
    parallel_for(to.outer, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        for (std::int64_t i = 0; i < count; ++i) {
          const T* const g = from + (block * count + i) * to.inner;
          T* const sum = sums + (block * to.size + where[i]) * to.inner;
          for (std::int64_t k = 0; k < to.inner; ++k) {
            sum[k] = static_cast<T>(static_cast<M>(sum[k]) + static_cast<M>(g[k]));
          }
        }
      }
    });
  });
}

void mask_scale(const Tensor& input, const Tensor& mask, double scale, const Tensor& out) {
  constexpr std::int64_t kGrain = 32 * 1024;
  visit_floating(input.dtype(), "dropout", [&]<typename T>() {
    using M = OpMath<T>;
    const T* const in = input.data<T>();
    const bool* const keep = mask.data<bool>();
    T* const to = out.data<T>();
    const M factor = static_cast<M>(scale);
    parallel_for(input.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        to[i] = keep[i] ? static_cast<T>(static_cast<M>(in[i]) * factor) : T();
      }
    });
  });
}

}  // namespace dl::kernels::cpu
