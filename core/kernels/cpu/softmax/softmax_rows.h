// Vectorised softmax of dense float32 lines. `is_log`: log-softmax.
#pragma once

#include <cstdint>

namespace dl::kernels::cpu {

inline constexpr std::int64_t kSoftmaxColumns = 512;  // the most columns of one call

// `lines` consecutive lines of `size` elements each.
void softmax_lines(bool is_log, const float* in, float* out, std::int64_t size,
                   std::int64_t lines) noexcept;
void softmax_lines_backward(bool is_log, const float* grad, const float* output, float* out,
                            std::int64_t size, std::int64_t lines) noexcept;
// `columns` interleaved lines, whose elements are `step` apart.
void softmax_columns(bool is_log, const float* in, float* out, std::int64_t size, std::int64_t step,
                     std::int64_t columns) noexcept;
void softmax_columns_backward(bool is_log, const float* grad, const float* output, float* out,
                              std::int64_t size, std::int64_t step, std::int64_t columns) noexcept;

}  // namespace dl::kernels::cpu
