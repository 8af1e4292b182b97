#include "core/kernels/cpu/copy.h"

#include <array>
#include <cstring>

#include "core/device/parallel.h"
#include "core/kernels/cpu/carrier.h"
#include "core/kernels/strided_loop.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kCopyGrain = 64 * 1024;  // elements worth a thread

// Same bytes on both sides: copied as unsigned integers of that width.
template <typename Bits>
void copy_bits(const StridedLoop<2>& loop, const void* source, void* destination) {
  const auto* from = static_cast<const Bits*>(source);
  auto* to = static_cast<Bits*>(destination);
  const std::int64_t to_step = loop.inner_stride(0);
  const std::int64_t from_step = loop.inner_stride(1);
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

// body.operator()<Bits>() with the unsigned integer of an element's width.
template <typename Body>
void visit_width(std::size_t width, const Body& body) {
  switch (width) {
    case 1:
      return body.template operator()<std::uint8_t>();
    case 2:
      return body.template operator()<std::uint16_t>();
    case 4:
      return body.template operator()<std::uint32_t>();
    default:
      return body.template operator()<std::uint64_t>();
  }
}

// Runs of the conversions that mixed precision consists of, without a carrier; null for others.
using ConvertRun = void (*)(const void* from, std::int64_t from_step, void* to,
                            std::int64_t to_step, std::int64_t length);
template <typename From, typename To>
void convert_run(const void* from, std::int64_t from_step, void* to, std::int64_t to_step,
                 std::int64_t length) {
  const auto* in = static_cast<const From*>(from);
  auto* out = static_cast<To*>(to);
  if (from_step == 1 && to_step == 1) {
    for (std::int64_t i = 0; i < length; ++i) out[i] = To(float{in[i]});
  } else {
    for (std::int64_t i = 0; i < length; ++i) out[i * to_step] = To(float{in[i * from_step]});
  }
}

ConvertRun direct_run(DType from, DType to) noexcept {
  if (from == DType::kF32 && to == DType::kBF16) return &convert_run<float, BFloat16>;
  if (from == DType::kF32 && to == DType::kF16) return &convert_run<float, Half>;
  if (from == DType::kBF16 && to == DType::kF32) return &convert_run<BFloat16, float>;
  if (from == DType::kF16 && to == DType::kF32) return &convert_run<Half, float>;
  return nullptr;
}

void copy_converted(const StridedLoop<2>& loop, const Tensor& source, const Tensor& destination) {
  // int64 carries integers exactly; only towards and from floating dtypes a double is needed.
  const bool floats = is_floating(source.dtype()) ||
                      (source.dtype() == DType::kU64 && is_floating(destination.dtype()));
  const DType carrier = floats ? DType::kF64 : DType::kI64;
  const Load load = load_as(source.dtype(), carrier);
  const Store store = store_from(carrier, destination.dtype());
  const char* const from = static_cast<const char*>(source.data_ptr());
  char* const to = static_cast<char*>(destination.data_ptr());
  const auto from_width = static_cast<std::int64_t>(size_of(source.dtype()));
  const auto to_width = static_cast<std::int64_t>(size_of(destination.dtype()));
  const std::int64_t to_step = loop.inner_stride(0);
  const std::int64_t from_step = loop.inner_stride(1);
  if (const ConvertRun run = direct_run(source.dtype(), destination.dtype())) {
    parallel_for(loop.count, kCopyGrain, [&](std::int64_t begin, std::int64_t end) {
      walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
        run(from + at[1] * from_width, from_step, to + at[0] * to_width, to_step, length);
      });
    });
    return;
  }
  parallel_for(loop.count, kCopyGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      std::array<std::uint64_t, kBlock> block;
      for (std::int64_t i = 0; i < length; i += kBlock) {
        const std::int64_t count = std::min(kBlock, length - i);
        load(from + (at[1] + i * from_step) * from_width, from_step, block.data(), count);
        store(block.data(), to + (at[0] + i * to_step) * to_width, to_step, count);
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
