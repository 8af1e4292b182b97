#include <algorithm>

#include "nn/onnx/nodes/translation.h"

namespace dl::onnx {
namespace {

struct Row {
  std::string_view name;
  void (*write)(Translation&);
};

// By the kernel's name in core/ops/op_list.def.
constexpr Row kKernels[] = {
    {"copy", write_copy},
    {"fill", write_fill},
    {"unary", write_unary},
    {"binary", write_binary},
    {"ternary", write_ternary},
    {"reduce", write_reduce},
    {"extreme", write_extreme},
    {"conv2d", write_conv2d},
    {"conv2d_backward_data", write_conv_transpose2d},
    {"max_pool2d", write_max_pool2d},
    {"taps2d", write_taps2d},
    {"matmul", write_matmul},
    {"matmul_batch", write_matmul},
    {"linear", write_linear},
    {"row_norm", write_row_norm},
    {"batch_norm", write_batch_norm},
    {"softmax", write_softmax},
    {"log_softmax", write_log_softmax},
    {"cumsum", write_cumsum},
    {"sort", write_sort},
    {"topk", write_topk},
    {"index_select", write_index_select},
    {"mask_scale", write_mask_scale},
    {"add_offsets", write_add_offsets},
    {"gather_elements", write_gather},
    {"scatter_elements", write_scatter},
};

// Checks of numbers while the program runs, of which nodes have their own.
void write_nothing(Translation&) {}

// Steps that call another function, by their names.
constexpr Row kOthers[] = {
    {"softmax", write_without_empty_rows},
    {"embedding", write_nothing},
    {"one_hot", write_nothing},
    {"fmod", write_nothing},
    {"remainder", write_nothing},
    {"floor_divide", write_nothing},
};

}  // namespace

void Translation::refuse(std::string_view what) const {
  throw_error(ErrorKind::kNotImplemented, "opset 17 of ONNX has no operation for '{}'", what);
}

void translate(Builder& builder, Memory& memory, const tape::Step& step,
               const std::vector<tape::Operand>& operands) {
  Translation translation(builder, memory, step, operands);
  const auto find = [](const auto& rows, std::string_view name) {
    const auto found = std::ranges::find(rows, name, &Row::name);
    return found == std::end(rows) ? nullptr : found->write;
  };
  const auto write =
      step.kernel().empty() ? find(kOthers, step.name()) : find(kKernels, step.kernel());
  if (write == nullptr || step.is_opaque()) translation.refuse(step.name());
  write(translation);
}

}  // namespace dl::onnx
