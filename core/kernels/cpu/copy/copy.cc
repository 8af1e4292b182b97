#include "core/kernels/declared/elementwise.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/device/parallel.h"
#include "core/kernels/cpu/copy/transpose.h"
#include "core/kernels/cpu/elementwise/compute_type.h"
#include "core/kernels/element_width.h"
#include "core/kernels/strided_loop.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kCopyGrain = 64 * 1024;  // elements worth a thread

// Copies between layouts whose innermost dimensions differ: dimension `turned` of the loop is dense
// in the source, and the last one in the destination.
template <typename Bits>
void copy_turned(const StridedLoop<2>& loop, std::size_t turned, const void* source,
                 void* destination) {
  constexpr std::int64_t kBlockRows = 64;  // of the output, a task
  const std::int64_t rows = loop.shape[turned];
  const std::int64_t columns = loop.inner_size();
  Shape outer_shape;
  std::array<Strides, 2> outer_strides;
  for (std::size_t d = 0; d + 1 < loop.shape.size(); ++d) {
    if (d == turned) continue;
    outer_shape.push_back(loop.shape[d]);
    for (std::size_t k = 0; k < 2; ++k) outer_strides[k].push_back(loop.strides[k][d]);
  }
  const auto outer = make_loop<2>(outer_shape, outer_strides);
  const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  const std::int64_t elements = std::min(rows, kBlockRows) * columns;
  const auto* const from = static_cast<const Bits*>(source);
  auto* const to = static_cast<Bits*>(destination);
  const std::int64_t to_step = loop.strides[0][turned];
  parallel_for(
      outer.count * blocks, std::max<std::int64_t>(1, kCopyGrain / elements),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
          const std::int64_t first = t % blocks * kBlockRows;
          walk(outer, t / blocks, t / blocks + 1, [&](const std::int64_t* at, std::int64_t) {
            transpose(from + at[1] + first, loop.inner_stride(1), to + at[0] + first * to_step,
                      to_step, std::min(kBlockRows, rows - first), columns);
          });
        }
      });
}

// Rows of dense elements.
template <typename Bits>
void copy_rows(const StridedLoop<2>& loop, const void* source, void* destination) {
  const auto* const from = static_cast<const Bits*>(source);
  auto* const to = static_cast<Bits*>(destination);
  const std::int64_t length = loop.inner_size();
  parallel_for(loop.shape[0], std::max<std::int64_t>(1, kCopyGrain / length),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   std::memcpy(to + r * loop.strides[0][0], from + r * loop.strides[1][0],
                               static_cast<std::size_t>(length) * sizeof(Bits));
                 }
               });
}

// Both dtypes have the same width and bits: copies unsigned integers.
template <typename Bits>
void copy_bits(const StridedLoop<2>& loop, const void* source, void* destination) {
  const auto* from = static_cast<const Bits*>(source);
  auto* to = static_cast<Bits*>(destination);
  const std::int64_t to_step = loop.inner_stride(0);
  const std::int64_t from_step = loop.inner_stride(1);
  if (to_step == 1 && from_step == 1 && loop.shape.size() == 2) {
    return copy_rows<Bits>(loop, source, destination);
  }
  if (to_step == 1 && from_step > 1) {
    for (std::size_t d = 0; d + 1 < loop.shape.size(); ++d) {
      if (loop.strides[1][d] != 1) continue;
      return copy_turned<Bits>(loop, d, source, destination);
    }
  }
  parallel_for(loop.count, kCopyGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      Bits* out = to + at[0];
      const Bits* in = from + at[1];
      if (to_step == 1 && from_step == 1) {
        std::memcpy(out, in, static_cast<std::size_t>(length) * sizeof(Bits));
      } else {
        for (std::int64_t i = 0; i < length; ++i) out[i * to_step] = in[i * from_step];
      }
    });
  });
}

template <typename Bits>
void fill_bits(const StridedLoop<1>& loop, Bits element, void* destination) {
  auto* const to = static_cast<Bits*>(destination);
  const std::int64_t step = loop.inner_stride(0);
  parallel_for(loop.count, kCopyGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      Bits* out = to + at[0];
      for (std::int64_t i = 0; i < length; ++i) out[i * step] = element;
    });
  });
}

void copy_converted(const StridedLoop<2>& loop, const Tensor& source, const Tensor& destination) {
  // int64 represents all integers exactly. Conversions to or from a floating dtype go through
  // float64, or through float32 if both dtypes are at most that wide.
  const bool floats = is_floating(source.dtype()) ||
                      (source.dtype() == DType::kU64 && is_floating(destination.dtype()));
  const auto is_narrow = [](DType dtype) { return compute_dtype_of(dtype) == DType::kF32; };
  const bool narrow = is_narrow(source.dtype()) && is_narrow(destination.dtype());
  const DType compute_dtype = narrow ? DType::kF32 : floats ? DType::kF64 : DType::kI64;
  const Load load = load_as(source.dtype(), compute_dtype);
  const Store store = store_from(compute_dtype, destination.dtype());
  const char* const from = static_cast<const char*>(source.data_ptr());
  char* const to = static_cast<char*>(destination.data_ptr());
  const auto from_width = static_cast<std::int64_t>(size_of(source.dtype()));
  const auto to_width = static_cast<std::int64_t>(size_of(destination.dtype()));
  const std::int64_t to_step = loop.inner_stride(0);
  const std::int64_t from_step = loop.inner_stride(1);
  parallel_for(loop.count, kCopyGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      const char* const in = from + at[1] * from_width;
      char* const out = to + at[0] * to_width;
      if (to_step == 1 && destination.dtype() == compute_dtype)
        return load(in, from_step, out, length);
      if (from_step == 1 && source.dtype() == compute_dtype) return store(in, out, to_step, length);
      std::array<std::uint64_t, kBlock> block;
      for (std::int64_t i = 0; i < length; i += kBlock) {
        const std::int64_t count = std::min(kBlock, length - i);
        load(in + i * from_step * from_width, from_step, block.data(), count);
        store(block.data(), out + i * to_step * to_width, to_step, count);
      }
    });
  });
}

}  // namespace

void copy(const Tensor& source, const Tensor& destination) {
  if (destination.numel() == 0) return;
  const Shape& shape = destination.sizes();
  if (source.dtype() == destination.dtype() && source.sizes() == shape && source.is_contiguous() &&
      destination.is_contiguous() && source.nbytes() <= 4096) {
    std::memcpy(destination.data_ptr(), source.data_ptr(), source.nbytes());
    return;
  }
  const auto loop = make_loop<2>(
      shape, {destination.strides(), broadcast_strides(source.sizes(), source.strides(), shape)});
  if (source.dtype() != destination.dtype()) return copy_converted(loop, source, destination);
  visit_width(size_of(source.dtype()), [&]<typename Bits>() {
    copy_bits<Bits>(loop, source.data_ptr(), destination.data_ptr());
  });
}

void fill(const Tensor& destination, Scalar value) {
  if (destination.numel() == 0) return;
  const auto loop = make_loop<1>(destination.sizes(), {destination.strides()});
  const std::uint64_t element = element_bits(value, destination.dtype());
  visit_width(size_of(destination.dtype()), [&]<typename Bits>() {
    Bits bits;
    std::memcpy(&bits, &element, sizeof(bits));
    fill_bits<Bits>(loop, bits, destination.data_ptr());
  });
}

}  // namespace dl::kernels::cpu
