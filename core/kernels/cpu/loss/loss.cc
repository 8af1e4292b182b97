#include "core/kernels/declared/loss.h"

#include "core/kernels/cpu/common/half_width.h"
#include "core/kernels/cpu/loss/loss_loops.h"

namespace dl::kernels::cpu {
std::int64_t cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& loss,
                           const Tensor& row_sums, const Tensor& counted) {
  if (is_half_width(logits)) {
    const Tensor wide_loss = wide_like(loss);
    const Tensor wide_sums = wide_like(row_sums);
    const std::int64_t bad = cross_entropy(widened(logits), target, wide_loss, wide_sums, counted);
    round_into(wide_loss, loss);
    round_into(wide_sums, row_sums);
    return bad;
  }
  return visit_f32_f64(logits, "cross_entropy", [&]<typename T>() {
    const CrossEntropyResult result =
        cross_entropy_forward(logits.size(0), logits.size(1), logits.data<T>(),
                              target.data<std::int64_t>(), row_sums.data<T>());
    *loss.data<T>() = static_cast<T>(result.loss);
    *counted.data<std::int64_t>() = result.counted;
    return result.bad_row;
  });
}

void cross_entropy_backward(const Tensor& grad, const Tensor& logits, const Tensor& target,
                            const Tensor& row_sums, const Tensor& counted, const Tensor& dlogits) {
  if (is_half_width(logits)) {
    const Tensor wide = wide_like(dlogits);
    cross_entropy_backward(widened(grad), widened(logits), target, widened(row_sums), counted,
                           wide);
    return round_into(wide, dlogits);
  }
  visit_f32_f64(logits, "cross_entropy", [&]<typename T>() {
    const T scale = *grad.data<T>() / static_cast<T>(*counted.data<std::int64_t>());
    kernels::cross_entropy_backward(logits.size(0), logits.size(1), logits.data<T>(),
                                    target.data<std::int64_t>(), row_sums.data<T>(), scale,
                                    dlogits.data<T>());
  });
}

void mse_loss(const Tensor& input, const Tensor& target, const Tensor& loss) {
  if (is_half_width(input)) {
    const Tensor wide = wide_like(loss);
    mse_loss(widened(input), widened(target), wide);
    return round_into(wide, loss);
  }
  visit_f32_f64(input, "mse_loss", [&]<typename T>() {
    *loss.data<T>() = static_cast<T>(mse_forward(input.numel(), input.data<T>(), target.data<T>()));
  });
}

void mse_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, double sign,
                       const Tensor& d) {
  if (is_half_width(input)) {
    const Tensor wide = wide_like(d);
    mse_loss_backward(widened(grad), widened(input), widened(target), sign, wide);
    return round_into(wide, d);
  }
  visit_f32_f64(input, "mse_loss", [&]<typename T>() {
    const double scale = sign * 2 / static_cast<double>(input.numel()) * *grad.data<T>();
    mse_backward(input.numel(), input.data<T>(), target.data<T>(), static_cast<T>(scale),
                 d.data<T>());
  });
}

}  // namespace dl::kernels::cpu
