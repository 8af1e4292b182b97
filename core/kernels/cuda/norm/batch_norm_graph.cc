#include "core/kernels/cuda/cudnn/data_type.h"
#include "core/kernels/cuda/norm/cudnn_norm.h"

namespace dl::kernels::cuda {
namespace {

// Channels last.
dnn::Layout batch_of(const BatchNormGraphShape& s) {
  return {.sizes = {s.samples, s.channels, s.positions, 1},
          .steps = {s.positions * s.channels, 1, s.channels, s.channels}};
}

}  // namespace

dnn::Graph batch_norm_graph(const BatchNormGraphShape& shape) {
  const cudnnDataType_t type = dnn::data_type_of(shape.dtype, "batch_norm");
  const dnn::Layout batch = batch_of(shape);
  const dnn::Layout numbers = dnn::Layout::of_channels(shape.channels);
  dnn::Graph graph;
  dnn::Graph::BatchNorm in{.x = graph.read(type, batch),
                           .weight = graph.read(CUDNN_DATA_FLOAT, numbers),
                           .bias = graph.read(CUDNN_DATA_FLOAT, numbers),
                           .eps = graph.constant(0),
                           .running = {}};
  if (shape.has_running) {
    const auto momentum = graph.constant(0);
    const auto mean = graph.read(CUDNN_DATA_FLOAT, numbers);
    in.running = {
        .momentum = momentum, .mean = mean, .variance = graph.read(CUDNN_DATA_FLOAT, numbers)};
  }
  dnn::Graph::Value residual = 0;
  if (shape.has_residual) residual = graph.read(type, batch);
  const auto out = graph.batch_norm(in);
  graph.write(out.mean, CUDNN_DATA_FLOAT, numbers);
  graph.write(out.scale, CUDNN_DATA_FLOAT, numbers);
  if (shape.has_running) {
    graph.write(out.running_mean, CUDNN_DATA_FLOAT, numbers);
    graph.write(out.running_variance, CUDNN_DATA_FLOAT, numbers);
  }
  dnn::Graph::Value y = out.y;
  if (shape.has_residual) {
    y = graph.pointwise(CUDNN_POINTWISE_ADD, {y, residual});
    graph.as_layout(y, batch);
  }
  if (shape.has_relu) y = graph.pointwise(CUDNN_POINTWISE_RELU_FWD, {y});
  graph.write(y, type, batch);
  return graph;
}

dnn::Graph batch_norm_backward_graph(const BatchNormGraphShape& shape) {
  const cudnnDataType_t type = dnn::data_type_of(shape.dtype, "batch_norm");
  const dnn::Layout batch = batch_of(shape);
  const dnn::Layout numbers = dnn::Layout::of_channels(shape.channels);
  dnn::Graph graph;
  auto dy = graph.read(type, batch);
  dnn::Graph::Value y = 0;
  if (shape.has_relu) y = graph.read(type, batch);
  const auto x = graph.read(type, batch);
  const auto weight = graph.read(CUDNN_DATA_FLOAT, numbers);
  const auto mean = graph.read(CUDNN_DATA_FLOAT, numbers);
  const auto scale = graph.read(CUDNN_DATA_FLOAT, numbers);
  if (shape.has_relu) {
    const auto passes = graph.pointwise(CUDNN_POINTWISE_CMP_GT, {y, graph.constant(0)});
    graph.as_type(passes, CUDNN_DATA_BOOLEAN);
    graph.as_layout(passes, batch);
    dy = graph.pointwise(CUDNN_POINTWISE_MUL, {dy, passes});
    // cuDNN wants it as x is.
    graph.as_type(dy, type);
    graph.as_layout(dy, batch);
    if (shape.has_residual) graph.write(dy, type, batch);
  }
  const auto out = graph.batch_norm_backward(dy, x, weight, mean, scale);
  graph.write(out.dx, type, batch);
  graph.write(out.dweight, CUDNN_DATA_FLOAT, numbers);
  graph.write(out.dbias, CUDNN_DATA_FLOAT, numbers);
  return graph;
}

}  // namespace dl::kernels::cuda
