#include "core/kernels/cpu/index.h"

#include <cstring>

#include "core/device/parallel.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kGrainBytes = 256 * 1024;  // copied bytes worth a thread

// A contiguous tensor around one dimension: outer blocks of `size` rows of `inner` elements.
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
  parallel_for(from.outer * count, std::max<std::int64_t>(1, kGrainBytes / row),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   const std::int64_t block = r / count;
                   std::memcpy(target + r * row,
                               source + (block * from.size + where[r % count]) * row,
                               static_cast<std::size_t>(row));
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
    // By outer block: rows of one block may meet in one sum.
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
