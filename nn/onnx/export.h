// export_model: writes a module as a file of ONNX (opset 17), for onnxruntime and other programs.
//
//     dl::onnx::export_model(model, x, "model.onnx",
//                            {.input_names = {"image"},
//                             .output_names = {"logits"},
//                             .dynamic_axes = {{"image", {{0, "batch"}}}}});
//
// The forward is called with the example inputs and recorded, as a compiled function is
// (nn/compile/compile.h): what it reads beside tensors, a number or a branch, is in the file as in
// this call. The module is in eval mode meanwhile, also if it is training, so dropout does nothing
// and batch norm uses its running statistics; its modes are restored.
//
// Sizes are fixed, except those of dynamic_axes. For them the forward is called with other sizes,
// too, from about half of them, at least 2, to twice as many, if it takes them; numbers that depend
// on them become nodes that compute them. What cannot depend on them is refused: a constant or an
// attribute that would differ, another number of operations.
//
// Parameters and buffers keep their names of the state_dict. An operation that ONNX does not have
// is refused by its name (kNotImplemented). Nothing is written then. The module and the inputs are
// on the CPU. Autocast is off in the file; gradients are not recorded. Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"
#include "nn/module/module.h"

namespace dl::onnx {

struct ExportOptions {
  // By default "input" and "output", or "input_1", "input_2", ... if there are several.
  std::vector<std::string> input_names{};
  std::vector<std::string> output_names{};
  // As in torch.onnx.export: {{"input", {{0, "batch"}}}}. Axes of one name have the same size.
  std::map<std::string, std::map<std::int64_t, std::string>> dynamic_axes{};
  bool external_data = false;       // tensors of 1 KiB and more go to PATH.data, beside the model
  std::int64_t opset_version = 17;  // no other is supported
  std::vector<std::pair<std::string, std::string>> metadata{};  // metadata_props of the model
};

// A forward of several inputs or outputs; it calls the module.
using Forward = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

// Throws kInvalidArgument for options that do not fit, kNotImplemented for what ONNX or a dynamic
// axis does not allow, kNotFound and kIo with the file's name.
void export_model(nn::Module& module, const Tensor& input, const std::string& path,
                  const ExportOptions& options = {});
void export_model(nn::Module& module, const std::vector<Tensor>& inputs, const Forward& forward,
                  const std::string& path, const ExportOptions& options = {});

}  // namespace dl::onnx
