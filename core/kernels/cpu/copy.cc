#include "core/kernels/cpu/copy.h"

#include <cstring>

#include "core/device/parallel.h"
#include "core/kernels/strided_loop.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 64 * 1024;  // elements worth a thread

// Same bytes on both sides: copied as unsigned integers of that width.
template <typename Bits>
void copy_bits(const StridedLoop<2>& loop, const void* source, void* destination) {
  const auto* from = static_cast<const Bits*>(source);
  auto* to = static_cast<Bits*>(destination);
  const std::int64_t to_step = loop.inner_stride(0);
  const std::int64_t from_step = loop.inner_stride(1);
  parallel_for(loop.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const auto& offsets, std::int64_t length) {
      Bits* out = to + offsets[0];
      const Bits* in = from + offsets[1];
      if (to_step == 1 && from_step == 1) {
        std::memcpy(out, in, static_cast<std::size_t>(length) * sizeof(Bits));
      } else {
        for (std::int64_t i = 0; i < length; ++i) out[i * to_step] = in[i * from_step];
      }
    });
  });
}

template <typename From, typename To>
void copy_converted(const StridedLoop<2>& loop, const From* from, To* to) {
  const std::int64_t to_step = loop.inner_stride(0);
  const std::int64_t from_step = loop.inner_stride(1);
  parallel_for(loop.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const auto& offsets, std::int64_t length) {
      To* out = to + offsets[0];
      const From* in = from + offsets[1];
      if (to_step == 1 && from_step == 1) {
        for (std::int64_t i = 0; i < length; ++i) out[i] = convert<To>(in[i]);
      } else {
        for (std::int64_t i = 0; i < length; ++i) {
          out[i * to_step] = convert<To>(in[i * from_step]);
        }
      }
    });
  });
}

void copy_same_dtype(const StridedLoop<2>& loop, std::size_t width, const void* source,
                     void* destination) {
  switch (width) {
    case 1:
      return copy_bits<std::uint8_t>(loop, source, destination);
    case 2:
      return copy_bits<std::uint16_t>(loop, source, destination);
    case 4:
      return copy_bits<std::uint32_t>(loop, source, destination);
    default:
      return copy_bits<std::uint64_t>(loop, source, destination);
  }
}

}  // namespace

void copy(const Tensor& source, const Tensor& destination) {
  if (destination.numel() == 0) return;
  const auto loop =
      make_loop<2>(destination.sizes(),
                   {destination.strides(),
                    broadcast_strides(source.sizes(), source.strides(), destination.sizes())});
  if (source.dtype() == destination.dtype()) {
    copy_same_dtype(loop, size_of(source.dtype()), source.data_ptr(), destination.data_ptr());
    return;
  }
  visit_all(source.dtype(), [&]<typename From>() {
    visit_all(destination.dtype(), [&]<typename To>() {
      copy_converted(loop, source.data<From>(), destination.data<To>());
    });
  });
}

void fill(const Tensor& destination, Scalar value) {
  if (destination.numel() == 0) return;
  visit_all(destination.dtype(), [&]<typename T>() {
    const T element = value.to<T>();
    T* const to = destination.data<T>();
    const auto loop = make_loop<1>(destination.sizes(), {destination.strides()});
    const std::int64_t step = loop.inner_stride(0);
    parallel_for(loop.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      walk(loop, begin, end, [&](const auto& offsets, std::int64_t length) {
        T* out = to + offsets[0];
        if (step == 1) {
          std::fill_n(out, length, element);
        } else {
          for (std::int64_t i = 0; i < length; ++i) out[i * step] = element;
        }
      });
    });
  });
}

}  // namespace dl::kernels::cpu
