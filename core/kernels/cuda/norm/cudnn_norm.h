// Batch normalisation in training by cuDNN, planned once for each shape.
//
// Only with channels last: cuDNN's engines for [samples, channels, positions] turn the batch into
// channels-last in scratch memory and back, which costs more than they gain. Evaluation is one pass
// over the batch, in which a library has nothing to gain. cuDNN's older function calls
// (cudnnBatchNormalizationForwardTrainingEx) are deprecated, may overflow for large finite numbers,
// and cannot be tried out without a GPU.
#pragma once

#include "core/args/norm_args.h"
#include "core/kernels/cuda/cudnn/graph.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cuda {

struct BatchNormGraphShape {
  DType dtype;  // of x, y and their gradients
  std::int64_t samples, channels, positions;
  bool has_running;  // statistics
  bool has_relu = false;
  bool has_residual = false;  // only with a ReLU
};
// In memory: x, weight, bias, the running mean and variance, the residual; mean, 1 / deviation, the
// new running statistics, and y. Constants: eps, and momentum if there are running statistics.
dnn::Graph batch_norm_graph(const BatchNormGraphShape& shape);
// In memory: dy, y if there is a ReLU, x, weight, mean, 1 / deviation; the residual's gradient, dx,
// dweight and dbias. cuDNN has no engine for CUDNN_POINTWISE_RELU_BWD before the normalisation.
dnn::Graph batch_norm_backward_graph(const BatchNormGraphShape& shape);

// batch_norm_relu() and its backward of declared/norm.h, or batch_norm() without `relu`, and its
// backward if y is undefined. False, and nothing is done, if cuDNN does not take the case, or may
// not: see dnn::plans_are_made(). The code of cuDNN 9.19 for the ReLU keeps NaN.
bool cudnn_batch_norm(const BatchNormArgs& args, const Tensor& x, const Tensor& weight,
                      const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                      const Tensor& residual, bool relu, const Tensor& y, const Tensor& stats);
bool cudnn_batch_norm_backward(const BatchNormArgs& args, const Tensor& dy, const Tensor& y,
                               const Tensor& x, const Tensor& weight, const Tensor& stats,
                               const Tensor& dresidual, const Tensor& dx, const Tensor& dweight,
                               const Tensor& dbias);

}  // namespace dl::kernels::cuda
