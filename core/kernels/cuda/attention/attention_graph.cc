#include "core/kernels/cuda/attention/cudnn_attention.h"

#include <limits>

#include "core/kernels/cuda/cudnn/data_type.h"

namespace dl::kernels::cuda {
namespace {

dnn::Layout layout_of(const AttentionShape& shape, const HeadRows& rows, int count) {
  return {.sizes = {shape.batches / shape.heads, shape.heads, count, shape.width},
          .steps = {rows.batch_step, rows.head_step, rows.row_step, 1}};
}

// One number for each query.
dnn::Layout numbers_of(const AttentionShape& shape) {
  return dnn::Layout::row_major({shape.batches / shape.heads, shape.heads, shape.queries, 1});
}

dnn::Graph::Value masked(dnn::Graph& graph, const AttentionShape& shape, dnn::Graph::Value scores) {
  if (!shape.causal) return scores;
  const auto row = graph.index(scores, 2);
  const auto column = graph.index(scores, 3);
  const auto seen = graph.pointwise(CUDNN_POINTWISE_CMP_GE, {row, column});
  graph.as_type(seen, CUDNN_DATA_BOOLEAN);
  const auto hidden = graph.constant(-std::numeric_limits<float>::infinity());
  return graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scores, hidden, seen});
}

}  // namespace

dnn::Graph attention_graph(const AttentionShape& shape, const HeadRows& query, const HeadRows& key,
                           const HeadRows& value, const HeadRows& out) {
  const cudnnDataType_t type = dnn::data_type_of(shape.dtype, "scaled_dot_product_attention");
  dnn::Graph graph;
  const auto q = graph.read(type, layout_of(shape, query, shape.queries));
  const auto k = graph.read(type, layout_of(shape, key, shape.keys).turned());
  const auto v = graph.read(type, layout_of(shape, value, shape.keys));
  const auto products = graph.product(q, k);
  const auto scaled = graph.pointwise(CUDNN_POINTWISE_MUL, {products, graph.constant(shape.scale)});
  const auto scores = masked(graph, shape, scaled);
  const auto largest = graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores);
  const auto below = graph.pointwise(CUDNN_POINTWISE_SUB, {scores, largest});
  const auto exponentials = graph.pointwise(CUDNN_POINTWISE_EXP, {below});
  const auto sum = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials);
  const auto logarithm = graph.pointwise(CUDNN_POINTWISE_LOG, {sum});
  const auto stats = graph.pointwise(CUDNN_POINTWISE_ADD, {largest, logarithm});
  const auto shares = graph.pointwise(CUDNN_POINTWISE_DIV, {exponentials, sum});
  graph.as_type(shares, type);
  const auto result = graph.product(shares, v);
  graph.write(result, type, layout_of(shape, out, shape.queries));
  graph.write(stats, CUDNN_DATA_FLOAT, numbers_of(shape));
  return graph;
}

dnn::Graph attention_backward_graph(const AttentionShape& shape,
                                    const AttentionGradients& tensors) {
  const cudnnDataType_t type = dnn::data_type_of(shape.dtype, "scaled_dot_product_attention");
  dnn::Graph graph;
  const auto of_queries = [&](const HeadRows& rows) {
    return layout_of(shape, rows, shape.queries);
  };
  const auto of_keys = [&](const HeadRows& rows) { return layout_of(shape, rows, shape.keys); };
  const auto grad = graph.read(type, of_queries(tensors.grad));
  const auto q = graph.read(type, of_queries(tensors.query));
  const auto k = graph.read(type, of_keys(tensors.key).turned());
  const auto v = graph.read(type, of_keys(tensors.value).turned());
  const auto out = graph.read(type, of_queries(tensors.out));
  const auto stats = graph.read(CUDNN_DATA_FLOAT, numbers_of(shape));
  const auto scale = graph.constant(shape.scale);

  const auto row_products =
      graph.reduce(CUDNN_REDUCE_TENSOR_ADD, graph.pointwise(CUDNN_POINTWISE_MUL, {grad, out}));
  const auto kept_products =
      graph.pointwise(CUDNN_POINTWISE_MUL, {row_products, graph.constant(1)});
  graph.write(kept_products, CUDNN_DATA_FLOAT, numbers_of(shape));

  const auto scaled = graph.pointwise(CUDNN_POINTWISE_MUL, {graph.product(q, k), scale});
  const auto below = graph.pointwise(CUDNN_POINTWISE_SUB, {scaled, stats});
  const auto shares = graph.pointwise(CUDNN_POINTWISE_EXP, {masked(graph, shape, below)});
  const auto scores =
      dnn::Layout::row_major({shape.batches / shape.heads, shape.heads, shape.queries, shape.keys});
  const auto turned = [&](dnn::Graph::Value of) {
    const auto result = graph.reshape(of, scores.turned());
    graph.as_type(result, type);
    return result;
  };
  const auto dvalue = graph.product(turned(shares), grad);

  const auto dshares = graph.product(grad, v);
  const auto centred = graph.pointwise(CUDNN_POINTWISE_SUB, {dshares, kept_products});
  const auto unscaled = graph.pointwise(CUDNN_POINTWISE_MUL, {centred, shares});
  const auto dscores = graph.pointwise(CUDNN_POINTWISE_MUL, {unscaled, scale});
  const auto dkey = graph.product(turned(dscores), q);
  const auto rows_of_keys = graph.reshape(k, of_keys(tensors.key));
  graph.as_type(rows_of_keys, type);
  const auto dquery_sum = graph.product(dscores, rows_of_keys);
  graph.write(dquery_sum, CUDNN_DATA_FLOAT,
              dnn::Layout::row_major(of_queries(tensors.query).sizes));
  const auto dquery = graph.pointwise(CUDNN_POINTWISE_IDENTITY, {dquery_sum});
  graph.write(dvalue, type, of_keys(tensors.dvalue));
  graph.write(dkey, type, of_keys(tensors.dkey));
  graph.write(dquery, type, of_queries(tensors.dquery));
  return graph;
}

}  // namespace dl::kernels::cuda
