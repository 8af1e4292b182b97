// CUDA's element-wise kernels. One operand of a binary kernel may be a 0-d tensor on the CPU: its
// value is passed with the launch. A row without a CUDA kernel throws kNotImplemented.
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

// Computes out = f(a, b) by flat(a, b) if all have the same layout and it supports the case, else
// in parts by strided(a, b, out, map).
template <typename Flat, typename Strided>
void pair(const Tensor& a, const Tensor& b, const Tensor& out, const Flat& by_flat,
          const Strided& by_strided) {
  const DType dtype = (on_host(a) ? b : a).dtype();
  const Operand left = operand_of(a);
  const Operand right = operand_of(b);
  const bool flat = (left.one || same_layout(a, out)) && (right.one || same_layout(b, out)) &&
                    (out.is_contiguous() || out.is_channels_last());
  if (flat && by_flat(dtype, left, right)) return;
  const Shape& shape = out.sizes();
  const auto loop =
      make_loop<3>(shape, {out.strides(), strides_in(a, shape), strides_in(b, shape)});
  for_each_part(loop, [&](const OffsetMap<3>& map, const std::array<std::int64_t, 3>& first) {
    Operand part_a = left;
    Operand part_b = right;
    part_a.data = moved(left.data, first[1], dtype);
    part_b.data = moved(right.data, first[2], dtype);
    by_strided(dtype, part_a, part_b, moved(out.data_ptr(), first[0], out.dtype()), map);
  });
}

}  // namespace

void unary(UnaryFn fn, const Tensor& input, const Parameters& parameters, const Tensor& out) {
  check_is_there(facts(fn));
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
  check_is_there(facts(fn));
  if (out.numel() == 0) return;
  const Launch launch;
  pair(
      grad, saved, out,
      [&](DType dtype, const Operand& g, const Operand& s) {
        return gradient_flat(fn, dtype, g, s, parameters, out.data_ptr(), out.numel(),
                             launch.stream());
      },
      [&](DType dtype, const Operand& g, const Operand& s, void* to, const OffsetMap<3>& map) {
        gradient_strided(fn, dtype, g, s, parameters, to, map, launch.stream());
      });
  DL_CUDA_LAUNCHED("unary_backward");
}

void binary(BinaryFn fn, const Tensor& a, const Tensor& b, const Parameters& parameters,
            const Tensor& out) {
  check_is_there(facts(fn));
  if (out.numel() == 0) return;
  const Launch launch;
  pair(
      a, b, out,
      [&](DType dtype, const Operand& left, const Operand& right) {
        return binary_flat(fn, dtype, left, right, parameters, out.data_ptr(), out.numel(),
                           launch.stream());
      },
      [&](DType dtype, const Operand& left, const Operand& right, void* to,
          const OffsetMap<3>& map) {
        binary_strided(fn, dtype, left, right, parameters, to, map, launch.stream());
      });
  DL_CUDA_LAUNCHED("binary");
}

}  // namespace dl::kernels::cuda
