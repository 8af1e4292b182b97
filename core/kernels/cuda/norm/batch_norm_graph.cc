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
  const auto out = graph.batch_norm(in);
  graph.write(out.y, type, batch);
  graph.write(out.mean, CUDNN_DATA_FLOAT, numbers);
  graph.write(out.scale, CUDNN_DATA_FLOAT, numbers);
  if (shape.has_running) {
    graph.write(out.running_mean, CUDNN_DATA_FLOAT, numbers);
    graph.write(out.running_variance, CUDNN_DATA_FLOAT, numbers);
  }
  return graph;
}

dnn::Graph batch_norm_backward_graph(const BatchNormGraphShape& shape) {
  const cudnnDataType_t type = dnn::data_type_of(shape.dtype, "batch_norm");
  const dnn::Layout batch = batch_of(shape);
  const dnn::Layout numbers = dnn::Layout::of_channels(shape.channels);
  dnn::Graph graph;
  const auto dy = graph.read(type, batch);
  const auto x = graph.read(type, batch);
  const auto weight = graph.read(CUDNN_DATA_FLOAT, numbers);
  const auto mean = graph.read(CUDNN_DATA_FLOAT, numbers);
  const auto scale = graph.read(CUDNN_DATA_FLOAT, numbers);
  const auto out = graph.batch_norm_backward(dy, x, weight, mean, scale);
  graph.write(out.dx, type, batch);
  graph.write(out.dweight, CUDNN_DATA_FLOAT, numbers);
  graph.write(out.dbias, CUDNN_DATA_FLOAT, numbers);
  return graph;
}

}  // namespace dl::kernels::cuda
