// Losses on plain memory: mean softmax cross entropy with class indices, and mean squared error.
//
// Sums run in parts whose number depends on the number of threads only, and f32 sums over the batch
// are kept in f64: the same number of threads gives the same bits on every run.
#pragma once

#include <cstdint>

#include "core/kernels/declared/loss.h"

namespace dl::kernels {

struct CrossEntropyResult {
  double loss = 0;            // mean over the rows that count; NaN if none does, as in PyTorch
  std::int64_t counted = 0;   // rows whose target is not kIgnoreIndex
  std::int64_t bad_row = -1;  // first row whose target is neither a class nor kIgnoreIndex
};

// logits [rows, classes]; target [rows]; row_sums [rows, 2] receives each row's maximum and
// ln sum_c exp(logits[row][c] - maximum) (Goodfellow et al. 2016, 4.1). If bad_row >= 0, the other
// results are undefined.
CrossEntropyResult cross_entropy_forward(std::int64_t rows, std::int64_t classes,
                                         const float* logits, const std::int64_t* target,
                                         float* row_sums);
CrossEntropyResult cross_entropy_forward(std::int64_t rows, std::int64_t classes,
                                         const double* logits, const std::int64_t* target,
                                         double* row_sums);

// dlogits = scale * (softmax(logits) - onehot(target)), zero in ignored rows; scale is the loss's
// gradient divided by `counted`.
void cross_entropy_backward(std::int64_t rows, std::int64_t classes, const float* logits,
                            const std::int64_t* target, const float* row_sums, float scale,
                            float* dlogits);
void cross_entropy_backward(std::int64_t rows, std::int64_t classes, const double* logits,
                            const std::int64_t* target, const double* row_sums, double scale,
                            double* dlogits);

// Mean of (x - y)^2 over n elements; NaN for n = 0, as in PyTorch.
double mse_forward(std::int64_t n, const float* x, const float* y);
double mse_forward(std::int64_t n, const double* x, const double* y);
// d = scale * (x - y); scale is 2 / n times the loss's gradient.
void mse_backward(std::int64_t n, const float* x, const float* y, float scale, float* d);
void mse_backward(std::int64_t n, const double* x, const double* y, double scale, double* d);

}  // namespace dl::kernels
