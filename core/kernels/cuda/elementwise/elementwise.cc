// CUDA's element-wise kernels. One operand of a binary kernel may be a 0-d tensor on the CPU: its
// value is passed with the launch.
#include "core/kernels/declared/elementwise.h"

#include "core/kernels/cuda/common/strided.h"
#include "core/kernels/cuda/elementwise/elementwise_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"

namespace dl::kernels::cuda {
namespace {

// The value of a 0-d CPU tensor, which has the operands' dtype, or float32 next to float16 and
// bfloat16.
Operand host_value(const Tensor& tensor) {
  return visit_all(tensor.dtype(), [&]<typename T>() {
    const T value = *static_cast<const T*>(tensor.data_ptr());
    return Operand{.one = true,
                   .floating = dl::detail::convert<double>(value),
                   .integer = static_cast<std::int64_t>(dl::detail::convert<std::uint64_t>(value))};
  });
}

bool on_host(const Tensor& tensor) noexcept {
  return tensor.device().type == DeviceType::kCPU;
}

Operand operand_of(const Tensor& tensor) {
  if (on_host(tensor)) return host_value(tensor);
  return {.data = tensor.data_ptr(), .one = tensor.numel() == 1};
}

const void* moved(const void* data, std::int64_t elements, DType dtype) {
  if (data == nullptr) return nullptr;
  return static_cast<const char*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}
void* moved(void* data, std::int64_t elements, DType dtype) {
  return static_cast<char*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}

// Computes `out` by by_flat(operands) if all have the same layout and it supports the case, else in
// parts by by_strided(operands, to, map).
template <std::size_t N, typename Flat, typename Strided>
void from_operands(const std::array<const Tensor*, N>& tensors, const Tensor& out,
                   const Flat& by_flat, const Strided& by_strided) {
  std::array<Operand, N> operands;
  bool flat = out.is_contiguous() || out.is_channels_last();
  for (std::size_t k = 0; k < N; ++k) {
    operands[k] = operand_of(*tensors[k]);
    flat = flat && (operands[k].one || same_layout(*tensors[k], out));
  }
  if (flat && by_flat(operands)) return;
  const Shape& shape = out.sizes();
  std::array<Strides, N + 1> strides{out.strides()};
  for (std::size_t k = 0; k < N; ++k) strides[k + 1] = strides_in(*tensors[k], shape);
  const auto loop = make_loop<N + 1>(shape, strides);
  for_each_part(loop,
                [&](const OffsetMap<N + 1>& map, const std::array<std::int64_t, N + 1>& first) {
                  std::array<Operand, N> part = operands;
                  for (std::size_t k = 0; k < N; ++k) {
                    part[k].data = moved(part[k].data, first[k + 1], tensors[k]->dtype());
                  }
                  by_strided(part, moved(out.data_ptr(), first[0], out.dtype()), map);
                });
}

}  // namespace

void unary(UnaryFn fn, const Tensor& input, const Parameters& parameters, const Tensor& out) {
  if (out.numel() == 0) return;
  const DType dtype = out.dtype();
  const Launch launch;
  if (!same_layout(input, out) || !unary_flat(fn, dtype, input.data_ptr(), parameters,
                                              out.data_ptr(), out.numel(), launch.stream())) {
    const Shape& shape = out.sizes();
    const auto loop = make_loop<2>(shape, {out.strides(), strides_in(input, shape)});
    for_each_part(loop, [&](const OffsetMap<2>& map, const std::array<std::int64_t, 2>& first) {
      unary_strided(fn, dtype, moved(static_cast<const void*>(input.data_ptr()), first[1], dtype),
                    parameters, moved(out.data_ptr(), first[0], dtype), map, launch.stream());
    });
  }
  DL_CUDA_LAUNCHED("unary");
}

void unary_backward(UnaryFn fn, const Tensor& grad, const Tensor& saved,
                    const Parameters& parameters, const Tensor& out) {
  if (out.numel() == 0) return;
  const DType dtype = (on_host(grad) ? saved : grad).dtype();
  const Launch launch;
  from_operands(
      std::array{&grad, &saved}, out,
      [&](const std::array<Operand, 2>& in) {
        return gradient_flat(fn, dtype, in[0], in[1], parameters, out.data_ptr(), out.numel(),
                             launch.stream());
      },
      [&](const std::array<Operand, 2>& in, void* to, const OffsetMap<3>& map) {
        gradient_strided(fn, dtype, in[0], in[1], parameters, to, map, launch.stream());
      });
  DL_CUDA_LAUNCHED("unary_backward");
}

void binary(BinaryFn fn, const Tensor& a, const Tensor& b, const Parameters& parameters,
            const Tensor& out) {
  if (out.numel() == 0) return;
  const DType dtype = (on_host(a) ? b : a).dtype();
  const Launch launch;
  from_operands(
      std::array{&a, &b}, out,
      [&](const std::array<Operand, 2>& in) {
        return binary_flat(fn, dtype, in[0], in[1], parameters, out.data_ptr(), out.numel(),
                           launch.stream());
      },
      [&](const std::array<Operand, 2>& in, void* to, const OffsetMap<3>& map) {
        binary_strided(fn, dtype, in[0], in[1], parameters, to, map, launch.stream());
      });
  DL_CUDA_LAUNCHED("binary");
}

void ternary(TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c,
             const Parameters& parameters, const Tensor& out) {
  if (out.numel() == 0) return;
  const bool is_condition = a.dtype() == DType::kBool;
  const Launch launch;
  from_operands(
      std::array{&a, &b, &c}, out,
      [&](const std::array<Operand, 3>& in) {
        return is_condition && where_flat(in[0], in[1], in[2], out.dtype(), out.data_ptr(),
                                          out.numel(), launch.stream());
      },
      [&](const std::array<Operand, 3>& in, void* to, const OffsetMap<4>& map) {
        ternary_strided(fn, is_condition, out.dtype(), in[0], in[1], in[2], parameters, to, map,
                        launch.stream());
      });
  DL_CUDA_LAUNCHED("ternary");
}

}  // namespace dl::kernels::cuda
