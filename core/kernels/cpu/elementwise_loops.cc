#include "core/kernels/cpu/elementwise_loops.h"

#include <array>
#include <cstring>

#include "core/device/parallel.h"
#include "core/kernels/cpu/carrier.h"
#include "core/kernels/strided_loop.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kElementwiseGrain = 32 * 1024;  // elements worth a thread

// True where a walk over the memory in order meets the same element of both.
bool lie_alike(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  if (a.is_contiguous() && b.is_contiguous()) return true;
  return a.is_channels_last() && b.is_channels_last();
}

template <typename Row>
Row choose(const Rows<Row>& rows, DType dtype, std::string_view op) {
  switch (dtype) {
    case DType::kF32:
      return rows.f32;
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
      return rows.f64;
    default:
      break;
  }
  if (rows.i64 == nullptr) refuse_dtype(op, dtype, "a floating dtype");
  return dtype == DType::kU64 && rows.u64 != nullptr ? rows.u64 : rows.i64;
}

// Dtypes whose rows work on their own memory.
bool is_direct(DType dtype) noexcept {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI64 ||
         dtype == DType::kU64;
}

using Block = std::array<std::uint64_t, kBlock>;

std::int64_t width_of(const Tensor& tensor) noexcept {
  return static_cast<std::int64_t>(size_of(tensor.dtype()));
}

struct Unary {
  UnaryRow row;
  double parameter;
  bool direct;
  Load load = nullptr;
  Store store = nullptr;
  std::int64_t width;

  void run(const char* in, std::int64_t in_step, char* out, std::int64_t out_step,
           std::int64_t length) const {
    if (direct) return row(in, in_step, out, out_step, length, parameter);
    Block block;
    for (std::int64_t i = 0; i < length; i += kBlock) {
      const std::int64_t count = std::min(kBlock, length - i);
      load(in + i * in_step * width, in_step, block.data(), count);
      row(block.data(), 1, block.data(), 1, count, parameter);
      store(block.data(), out + i * out_step * width, out_step, count);
    }
  }
};

struct Binary {
  BinaryRow row;
  Scalar parameter;
  bool direct;
  bool gives_bool;
  Load load_a = nullptr;
  Load load_b = nullptr;
  Store store = nullptr;
  std::int64_t a_width;
  std::int64_t b_width;
  std::int64_t out_width;

  void run(const char* a, std::int64_t a_step, const char* b, std::int64_t b_step, char* out,
           std::int64_t out_step, std::int64_t length) const {
    if (direct) return row(a, a_step, b, b_step, out, out_step, length, parameter);
    Block left;
    Block right;
    for (std::int64_t i = 0; i < length; i += kBlock) {
      const std::int64_t count = std::min(kBlock, length - i);
      load_a(a + i * a_step * a_width, a_step, left.data(), count);
      load_b(b + i * b_step * b_width, b_step, right.data(), count);
      char* const to = out + i * out_step * out_width;
      if (gives_bool) {
        row(left.data(), 1, right.data(), 1, to, out_step, count, parameter);
      } else {
        row(left.data(), 1, right.data(), 1, left.data(), 1, count, parameter);
        store(left.data(), to, out_step, count);
      }
    }
  }
};

}  // namespace

void unary_loop(const Rows<UnaryRow>& rows, const Tensor& input, const Tensor& output,
                std::string_view op, double parameter) {
  const DType dtype = output.dtype();
  Unary kernel{choose(rows, dtype, op), parameter, is_direct(dtype), nullptr, nullptr,
               width_of(output)};
  if (!kernel.direct) {
    kernel.load = load_as(dtype, carrier_of(dtype));
    kernel.store = store_from(carrier_of(dtype), dtype);
  }
  const char* const in = static_cast<const char*>(input.data_ptr());
  char* const out = static_cast<char*>(output.data_ptr());
  const std::int64_t width = kernel.width;
  if (lie_alike(input, output)) {
    parallel_for(output.numel(), kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
      kernel.run(in + begin * width, 1, out + begin * width, 1, end - begin);
    });
    return;
  }
  const Shape& shape = output.sizes();
  const auto loop = make_loop<2>(
      shape, {output.strides(), broadcast_strides(input.sizes(), input.strides(), shape)});
  parallel_for(loop.count, kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      kernel.run(in + at[1] * width, loop.inner_stride(1), out + at[0] * width,
                 loop.inner_stride(0), length);
    });
  });
}

void binary_loop(const Rows<BinaryRow>& rows, const Tensor& a, const Tensor& b,
                 const Tensor& output, std::string_view op, Scalar parameter) {
  const DType dtype = rows.give_bool ? a.dtype() : output.dtype();
  Binary kernel{.row = choose(rows, dtype, op),
                .parameter = parameter,
                .direct = is_direct(dtype),
                .gives_bool = rows.give_bool,
                .a_width = width_of(a),
                .b_width = width_of(b),
                .out_width = width_of(output)};
  if (!kernel.direct) {
    kernel.load_a = load_as(a.dtype(), carrier_of(dtype));
    kernel.load_b = load_as(b.dtype(), carrier_of(dtype));
    kernel.store = store_from(carrier_of(dtype), output.dtype());
  }
  const char* const left = static_cast<const char*>(a.data_ptr());
  const char* const right = static_cast<const char*>(b.data_ptr());
  char* const out = static_cast<char*>(output.data_ptr());
  const std::int64_t a_width = kernel.a_width;
  const std::int64_t b_width = kernel.b_width;
  const std::int64_t out_width = kernel.out_width;
  const bool a_alike = lie_alike(a, output);
  const bool b_alike = lie_alike(b, output);
  if ((a_alike || a.numel() == 1) && (b_alike || b.numel() == 1)) {
    const std::int64_t a_step = a_alike ? 1 : 0;
    const std::int64_t b_step = b_alike ? 1 : 0;
    parallel_for(output.numel(), kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
      kernel.run(left + begin * a_step * a_width, a_step, right + begin * b_step * b_width, b_step,
                 out + begin * out_width, 1, end - begin);
    });
    return;
  }
  const Shape& shape = output.sizes();
  const auto loop =
      make_loop<3>(shape, {output.strides(), broadcast_strides(a.sizes(), a.strides(), shape),
                           broadcast_strides(b.sizes(), b.strides(), shape)});
  parallel_for(loop.count, kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      kernel.run(left + at[1] * a_width, loop.inner_stride(1), right + at[2] * b_width,
                 loop.inner_stride(2), out + at[0] * out_width, loop.inner_stride(0), length);
    });
  });
}

}  // namespace dl::kernels::cpu
