// Translation: a step of a recording on its way to nodes of ONNX, and the table of what becomes of
// which kernel (table.cc). A kernel without a row is refused by name.
//
// A row is a function of a Translation. It reads operands as values, adds nodes with the builder,
// and writes the results; operands and arguments are those of core/kernels/declared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/elementwise/list.h"
#include "core/tape/recorder.h"
#include "nn/onnx/graph/graph.h"
#include "nn/onnx/memory/memory.h"

namespace dl::onnx {

class Translation {
 public:
  // `operands` are the step's, or those of several steps as one (loops.h).
  Translation(Builder& graph_builder, Memory& memory, const tape::Step& step,
              std::vector<tape::Operand> operands)
      : builder(graph_builder), memory_(memory), step_(step), operands_(std::move(operands)) {}

  bool has(std::size_t i) const noexcept { return operands_[i].block != tape::Operand::kUndefined; }
  const tape::Operand& operand(std::size_t i) const noexcept { return operands_[i]; }
  Value in(std::size_t i) { return memory_.read(operands_[i]); }
  // With size 1 in dimensions that are repeated, for nodes that broadcast.
  Value narrow_in(std::size_t i) { return memory_.read(operands_[i], true); }
  // As `sizes`, which has as many elements.
  Value in_as(std::size_t i, const Shape& sizes) { return builder.reshape(in(i), sizes); }
  // `value` has as many elements as the operand, or one, which is repeated.
  void out(std::size_t i, const Value& value) {
    const Shape& sizes = operands_[i].sizes;
    const bool is_one = value.sizes.empty() && !sizes.empty();
    memory_.write(operands_[i],
                  is_one ? builder.expand(value, sizes) : builder.reshape(value, sizes));
  }
  // An argument that is no tensor, by its type; find() gives null if there is none.
  template <typename T>
  const T* find() const {
    return step_.argument<T>();
  }
  template <typename T>
  const T& argument() const {
    const T* const found = find<T>();
    DL_CHECK(found != nullptr, kInternal, "export_model: {} lacks an argument", step_.name());
    return *found;
  }
  Memory& memory() noexcept { return memory_; }
  // No node of ONNX does it: "atan2".
  [[noreturn]] void refuse(std::string_view what) const;

  Builder& builder;

 private:
  Memory& memory_;
  const tape::Step& step_;
  std::vector<tape::Operand> operands_;
};

// Adds the nodes of a step. Throws kNotImplemented with the name of what ONNX does not have.
void translate(Builder& builder, Memory& memory, const tape::Step& step,
               const std::vector<tape::Operand>& operands);

// The rows, by room: elementwise.cc, matrix.cc, image.cc, norm.cc, reduce.cc, index.cc.
Value unary_value(Builder& builder, kernels::UnaryFn fn, const Value& x,
                  const kernels::Parameters& parameters);
void write_unary(Translation& step);
void write_binary(Translation& step);
void write_ternary(Translation& step);
void write_copy(Translation& step);
void write_fill(Translation& step);
void write_mask_scale(Translation& step);
void write_matmul(Translation& step);
void write_linear(Translation& step);
void write_conv2d(Translation& step);
void write_conv_transpose2d(Translation& step);
void write_max_pool2d(Translation& step);
void write_taps2d(Translation& step);
void write_batch_norm(Translation& step);
void write_row_norm(Translation& step);
void write_softmax(Translation& step);
void write_log_softmax(Translation& step);
void write_without_empty_rows(Translation& step);
void write_reduce(Translation& step);
void write_extreme(Translation& step);
void write_cumsum(Translation& step);
void write_sort(Translation& step);
void write_topk(Translation& step);
void write_index_select(Translation& step);
void write_add_offsets(Translation& step);
void write_gather(Translation& step);
void write_scatter(Translation& step);

}  // namespace dl::onnx
