// CUDA's matrix products, by cuBLASLt: f16 and bf16 are summed in f32; f32 in f32 or, with
// backends::cuda::matmul::allow_tf32, in TF32. Bias, activation and their gradients are fused if
// epilogue.h allows it and cuBLASLt has an algorithm for it; otherwise separate kernels compute
// them.
#include "core/kernels/declared/linear.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/kernels/cuda/linear/bias_relu.h"
#include "core/kernels/cuda/linear/product.h"
#include "core/kernels/cuda/reduce/reduce_kernels.h"
#include "core/kernels/declared/elementwise.h"
#include "core/kernels/element_width.h"

namespace dl::kernels::cuda {
namespace {

// A product without terms, which cuBLASLt does not support. `c` is one matrix, at `data`.
void set_zero(void* data, const Tensor& c, const Launch& launch) {
  const std::size_t row_dim = c.sizes().size() - 2;
  const auto width = size_of(c.dtype());
  const auto rows = static_cast<std::size_t>(c.sizes()[row_dim]);
  const auto row = static_cast<std::size_t>(c.sizes()[row_dim + 1]) * width;
  const auto pitch =
      std::max(row, static_cast<std::size_t>(rows == 1 ? 0 : c.strides()[row_dim]) * width);
  DL_CUDA_CHECK(cudaMemset2DAsync(data, pitch, 0, row, rows, launch.stream()));
}

// c = a b, or c += a b, without an epilogue.
void plain_product(const Stored& a, const Stored& b, bool accumulate, std::int64_t k,
                   const Tensor& c, const Launch& launch) {
  if (k == 0) {
    if (!accumulate) set_zero(c.data_ptr(), c, launch);
    return;
  }
  multiply({.left = a, .right = b, .c = c, .accumulate = accumulate}, k, launch);
}

EpilogueCase case_of(const Tensor& c, const Launch& launch) {
  return {.dtype = c.dtype(),
          .compute_capability = launch.compute_capability(),
          .columns = c.sizes()[1]};
}

}  // namespace

void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& c) {
  if (c.numel() == 0) return;
  plain_product(Stored(a), Stored(b), accumulate, a.sizes()[1], c, Launch());
}

void matmul_batch(const Tensor& a, const Tensor& b, const Tensor& c) {
  if (c.numel() == 0) return;
  const Launch launch;
  const std::int64_t k = a.sizes()[2];
  const Batch batch{.count = c.sizes()[0],
                    .left = a.strides()[0],
                    .right = b.strides()[0],
                    .result = c.strides()[0]};
  if (k == 0) {
    for (std::int64_t i = 0; i < batch.count; ++i) {
      const std::int64_t bytes = i * batch.result * static_cast<std::int64_t>(size_of(c.dtype()));
      set_zero(static_cast<std::byte*>(c.data_ptr()) + bytes, c, launch);
    }
    return;
  }
  multiply({.left = Stored::first_of(a), .right = Stored::first_of(b), .c = c, .batch = batch}, k,
           launch);
}

bool linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
            const Tensor& kept, const Tensor& y) {
  if (y.numel() == 0) return activation == Activation::kGeluTanh;
  const Launch launch;
  const std::int64_t in = x.sizes()[1];
  const void* const bias_data = bias.defined() ? bias.data_ptr() : nullptr;
  const Stored right = Stored(weight).turned();

  // If GELU is not fused, its input is written to `kept` first.
  const auto target = [&](Epilogue e) -> const Tensor& {
    const bool in_two_steps =
        activation == Activation::kGeluTanh && !applies_gelu(e) && kept.defined();
    return in_two_steps ? kept : y;
  };
  // Some of cuBLASLt's kernels read a bias in 16-byte loads even if it is not aligned.
  Epilogue e =
      in == 0 ? Epilogue::kNone
              : forward_epilogue(case_of(y, launch), bias_data != nullptr && is_aligned(bias_data),
                                 activation, kept.defined());
  while (e != Epilogue::kNone &&
         !multiply({.left = Stored(x),
                    .right = right,
                    .c = target(e),
                    .epilogue = e,
                    .bias = adds_bias(e) ? bias_data : nullptr,
                    .second = has_second_matrix(e) ? kept.data_ptr() : nullptr},
                   in, launch)) {
    e = simpler(e);
  }
  if (e == Epilogue::kNone) plain_product(Stored(x), right, false, in, target(e), launch);

  const void* const bias_to_add = adds_bias(e) ? nullptr : bias_data;
  const std::int64_t rows = y.sizes()[0];
  const std::int64_t columns = y.sizes()[1];
  const bool relu = activation == Activation::kRelu;
  const bool masked = relu && kept.defined() && fuses_second_matrix(case_of(y, launch));
  if (masked) {
    bias_relu_mask_launch(y.dtype(), y.data_ptr(), bias_to_add, kept.data_ptr(), rows, columns,
                          launch.stream());
  } else {
    bias_relu_launch(y.dtype(), target(e).data_ptr(), bias_to_add, relu, rows, columns,
                     launch.stream());
  }
  DL_CUDA_LAUNCHED("bias_relu");
  if (activation == Activation::kGeluTanh && !applies_gelu(e))
    unary(UnaryFn::kGeluTanh, target(e), {}, y);
  return masked || activation == Activation::kGeluTanh;
}

void linear_backward_input(const Tensor& dy, const Tensor& weight, Activation activation,
                           const Tensor& seen, const Tensor& mask, const Tensor& dx) {
  if (dx.numel() == 0) return;
  const Launch launch;
  const std::int64_t out = dy.sizes()[1];
  const Epilogue e =
      out == 0 ? Epilogue::kNone
               : input_gradient_epilogue(case_of(dx, launch), out, activation, mask.defined());
  const Tensor& second = e == Epilogue::kReluGradient ? mask : seen;
  if (e != Epilogue::kNone && multiply({.left = Stored(dy),
                                        .right = Stored(weight),
                                        .c = dx,
                                        .epilogue = e,
                                        .second = second.data_ptr()},
                                       out, launch)) {
    return;
  }
  plain_product(Stored(dy), Stored(weight), false, out, dx, launch);
  if (activation != Activation::kNone) unary_backward(unary_of(activation), dx, seen, {}, dx);
}

void linear_backward_weight(const Tensor& dy, const Tensor& x, bool accumulate,
                            const Tensor& dweight, bool accumulate_bias, const Tensor& dbias) {
  const Launch launch;
  const std::int64_t rows = dy.sizes()[0];
  const bool has_product = dweight.defined() && dweight.numel() != 0;
  if (has_product && rows != 0 && dbias.defined()) {
    const bool writes_bias = !accumulate_bias && is_aligned(dbias.data_ptr());
    const Epilogue e = weight_gradient_epilogue(case_of(dweight, launch), rows, writes_bias);
    if (e != Epilogue::kNone && multiply({.left = Stored(dy).turned(),
                                          .right = Stored(x),
                                          .c = dweight,
                                          .accumulate = accumulate,
                                          .epilogue = e,
                                          .bias = dbias.data_ptr()},
                                         rows, launch)) {
      return;
    }
  }
  if (dbias.defined()) sum_columns(dy.data_ptr(), rows, dy.sizes()[1], accumulate_bias, dbias);
  if (has_product) {
    plain_product(Stored(dy).turned(), Stored(x), accumulate, rows, dweight, launch);
  }
}

}  // namespace dl::kernels::cuda
