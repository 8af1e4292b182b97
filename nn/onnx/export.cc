#include "nn/onnx/export.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/ops/index/index.h"
#include "core/tape/recorder.h"
#include "core/tensor/factories.h"
#include "nn/module/modes.h"
#include "nn/onnx/graph/dynamic.h"
#include "nn/onnx/graph/graph.h"
#include "nn/onnx/graph/model_file.h"
#include "nn/onnx/loops.h"
#include "nn/onnx/memory/memory.h"
#include "nn/onnx/nodes/translation.h"

namespace dl::onnx {
namespace {

std::vector<std::string> names_for(std::size_t count, const std::vector<std::string>& given,
                                   std::string_view what) {
  DL_CHECK(given.empty() || given.size() == count, kInvalidArgument,
           "export_model: {}_names has {} names, but there are {} {}s", what, given.size(), count,
           what);
  if (!given.empty()) return given;
  if (count == 1) return {std::string(what)};
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= count; ++i) names.push_back(fmt::format("{}_{}", what, i));
  return names;
}

// All of these have names in one graph.
void check_names(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 const nn::StateDict& tensors) {
  std::set<std::string> seen;
  for (const nn::NamedTensor& each : tensors) seen.insert(each.name);
  for (const auto* const names : {&inputs, &outputs}) {
    for (const std::string& name : *names) {
      DL_CHECK(!name.empty() && seen.insert(name).second, kInvalidArgument,
               "export_model: the name '{}' is {}; give each input and output one of its own, by "
               "input_names and output_names",
               name, name.empty() ? "empty" : "there twice, or a parameter's or buffer's");
    }
  }
}

// The module's tensors, each under its first name.
nn::StateDict tensors_of(const nn::Module& module) {
  nn::StateDict tensors = module.named_parameters();
  for (nn::NamedTensor& buffer : module.named_buffers()) tensors.push_back(std::move(buffer));
  for (const nn::NamedTensor& each : tensors) {
    DL_CHECK(!each.tensor.is_cuda(), kInvalidArgument,
             "export_model: {} is on {}; move the module to the CPU", each.name,
             each.tensor.device().str());
  }
  return tensors;
}

class Exporter {
 public:
  Exporter(nn::Module& module, const std::vector<Tensor>& inputs, const Forward& forward,
           const ExportOptions& options)
      : inputs_(inputs),
        forward_(forward),
        options_(options),
        tensors_(tensors_of(module)),
        input_names_(names_for(inputs.size(), options.input_names, "input")) {
    DL_CHECK(options.opset_version == 17, kInvalidArgument,
             "export_model: opset_version is {}, wanted 17", options.opset_version);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      DL_CHECK(inputs[i].defined() && !inputs[i].is_cuda(), kInvalidArgument,
               "export_model: input {} is {}; give a tensor on the CPU", i + 1,
               inputs[i].defined() ? "on a GPU" : "undefined");
    }
    check_names(input_names_, options.output_names, tensors_);
    find_symbols();
  }

  Graph run() {
    Builder builder;
    std::vector<Capture> captures;
    captures.push_back({capture(builder, first_), first_});
    for (std::size_t s = 0; s < symbols_.size(); ++s) {
      std::vector<std::int64_t> sizes = first_;
      sizes[s] += step_of(s);
      captures.push_back({capture_alone(sizes), sizes});
    }
    if (!symbols_.empty()) {
      std::vector<std::int64_t> sizes = first_;
      for (std::size_t s = 0; s < sizes.size(); ++s) sizes[s] += 2 * step_of(s);
      captures.push_back({capture_alone(sizes), sizes});
      add_far_captures(captures);
    }
    Graph graph = merged(builder, std::move(captures));
    remove_unused(graph);
    unite_constants(graph);
    return graph;
  }

 private:
  void find_symbols() {
    for (const auto& [name, axes] : options_.dynamic_axes) {
      const auto found = std::ranges::find(input_names_, name);
      // As in PyTorch, an output may be named, too; its axes follow from the inputs'.
      const bool is_output = std::ranges::count(options_.output_names, name) > 0;
      DL_CHECK(found != input_names_.end() || is_output, kInvalidArgument,
               "export_model: dynamic_axes names '{}', which is no input or output", name);
      if (found == input_names_.end()) continue;
      const auto input = static_cast<std::size_t>(found - input_names_.begin());
      for (const auto& [axis, symbol] : axes) add_axis(input, axis, symbol);
    }
  }

  void add_axis(std::size_t input, std::int64_t given, const std::string& name) {
    DL_CHECK(!name.empty(), kInvalidArgument, "export_model: axis {} of {} has no name", given,
             input_names_[input]);
    const Shape& shape = inputs_[input].sizes();
    const std::size_t axis = wrap_dim(given, shape.size(), "export_model");
    auto found = std::ranges::find(symbols_, name, &Symbol::name);
    if (found == symbols_.end()) {
      symbols_.push_back({.name = name, .input = input, .axis = axis});
      sizes_.push_back(shape[axis]);
      first_.push_back(std::max<std::int64_t>(2, shape[axis]));
      found = symbols_.end() - 1;
    }
    const auto s = static_cast<std::size_t>(found - symbols_.begin());
    DL_CHECK(sizes_[s] == shape[axis] && shape[axis] > 0, kInvalidArgument,
             "export_model: the axis '{}' has the size {} in {}, and {} in another input; wanted "
             "one size, more than 0",
             name, shape[axis], input_names_[input], sizes_[s]);
    axes_.push_back({.symbol = s, .input = input, .axis = axis});
  }

  // Smaller sizes are always possible; larger ones may be more than a module takes.
  std::int64_t step_of(std::size_t s) const { return first_[s] >= 4 ? -1 : 1; }

  // With half of the sizes and with twice as many, so that a size that grows by steps, as that of a
  // strided convolution's result, is not taken for fixed. Sizes that the module refuses are left
  // out.
  void add_far_captures(std::vector<Capture>& captures) {
    std::vector<std::int64_t> half;
    std::vector<std::int64_t> twice;
    for (const std::int64_t size : first_) {
      half.push_back(std::max<std::int64_t>(2, size / 2));
      twice.push_back(2 * size + 1);
    }
    for (const std::vector<std::int64_t>& sizes : {half, twice}) {
      try {
        forward_(inputs_with(sizes));
      } catch (const Error&) {
        continue;
      }
      captures.push_back({capture_alone(sizes), sizes});
    }
  }

  // The example inputs, their dynamic axes with these sizes.
  std::vector<Tensor> inputs_with(const std::vector<std::int64_t>& sizes) const {
    std::vector<Tensor> result;
    for (const Tensor& input : inputs_) result.push_back(input.detach().clone());
    for (const auto& [symbol, input, axis] : axes_) {
      const std::int64_t size = sizes[symbol];
      const Tensor index = empty(Shape{size}, {.dtype = DType::kI64});
      for (std::int64_t i = 0; i < size; ++i) index.data<std::int64_t>()[i] = i % sizes_[symbol];
      if (size == sizes_[symbol]) continue;
      result[input] = index_select(result[input], static_cast<std::int64_t>(axis), index);
    }
    return result;
  }

  Graph capture_alone(const std::vector<std::int64_t>& sizes) {
    Builder builder;
    return capture(builder, sizes);
  }

  Graph capture(Builder& builder, const std::vector<std::int64_t>& sizes) {
    const std::vector<Tensor> inputs = inputs_with(sizes);
    for (const nn::NamedTensor& each : tensors_) builder.reserve(each.name);
    for (const std::string& name : input_names_) builder.reserve(name);
    for (const std::string& name : options_.output_names) builder.reserve(name);
    std::vector<tape::Operand> places;
    std::vector<tape::Operand> results;
    tape::Recording recording;
    {
      tape::Recorder recorder;
      for (const Tensor& input : inputs) places.push_back(recorder.operand_of(input));
      const std::vector<Tensor> outputs = forward_(inputs);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        DL_CHECK(outputs[i].defined(), kInvalidArgument, "export_model: output {} is undefined",
                 i + 1);
        results.push_back(recorder.operand_of(outputs[i]));
      }
      recording = recorder.finish();
    }
    DL_CHECK(recording.refused.empty(), kNotImplemented, "export_model: {}", recording.refused);
    Memory memory(builder, recording, tensors_);
    set_inputs(builder, memory, places);
    translate_steps(builder, memory, recording);
    read_outputs(builder, memory, results);
    remove_unused(builder.graph);
    return std::move(builder.graph);
  }

  void set_inputs(Builder& builder, Memory& memory, const std::vector<tape::Operand>& places) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const tape::Operand& place = places[i];
      Port port{.name = input_names_[i], .dtype = place.dtype, .sizes = place.sizes};
      port.symbols.resize(port.sizes.size());
      for (const auto& [symbol, input, axis] : axes_) {
        if (input == i) port.symbols[axis] = symbols_[symbol].name;
      }
      builder.add_input(port);
      memory.set_input(place, {.name = port.name, .sizes = port.sizes, .dtype = port.dtype});
    }
  }

  static void translate_steps(Builder& builder, Memory& memory, const tape::Recording& recording) {
    const std::vector<RecordedCall> calls = without_loops(recording);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      try {
        translate(builder, memory, *calls[i].step, calls[i].operands);
      } catch (const Error& error) {
        throw_error(error.kind(), "export_model: operation {} of {}, {}: {}", i + 1, calls.size(),
                    calls[i].step->name(), error.what());
      }
    }
  }

  void read_outputs(Builder& builder, Memory& memory, const std::vector<tape::Operand>& results) {
    const std::vector<std::string> names =
        names_for(results.size(), options_.output_names, "output");
    check_names(input_names_, names, tensors_);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < results.size(); ++i) {
      try {
        values.push_back(memory.read(results[i]).name);
      } catch (const Error& error) {
        throw_error(error.kind(), "export_model: output {}: {}", i + 1, error.what());
      }
      builder.graph.outputs.push_back(
          {.name = names[i], .dtype = results[i].dtype, .sizes = results[i].sizes});
    }
    name_outputs(builder.graph, values);
  }

  Graph merged(Builder& builder, std::vector<Capture> captures) const {
    if (symbols_.empty()) return std::move(captures.front().graph);
    try {
      return merge(builder, std::move(captures), symbols_);
    } catch (const Error& error) {
      throw_error(error.kind(), "export_model: {}", error.what());
    }
  }

  struct Axis {
    std::size_t symbol;
    std::size_t input;
    std::size_t axis;
  };

  const std::vector<Tensor>& inputs_;
  const Forward& forward_;
  const ExportOptions& options_;
  nn::StateDict tensors_;
  std::vector<std::string> input_names_;
  std::vector<Symbol> symbols_;
  std::vector<std::int64_t> sizes_;  // of the symbols in the example
  std::vector<std::int64_t> first_;  // in the first capture
  std::vector<Axis> axes_;
};

}  // namespace

void export_model(nn::Module& module, const Tensor& input, const std::string& path,
                  const ExportOptions& options) {
  const Forward forward = [&](std::span<const Tensor> inputs) {
    return std::vector<Tensor>{module(inputs[0])};
  };
  export_model(module, {input}, forward, path, options);
}

void export_model(nn::Module& module, const std::vector<Tensor>& inputs, const Forward& forward,
                  const std::string& path, const ExportOptions& options) {
  const NoGradGuard no_grad;
  const AutocastOff no_autocast;
  const nn::detail::EvalMode eval(module);
  const Graph graph = Exporter(module, inputs, forward, options).run();
  write_model(graph, {.path = path,
                      .graph_name = module.type_name(),
                      .external_data = options.external_data,
                      .metadata = options.metadata});
}

}  // namespace dl::onnx
