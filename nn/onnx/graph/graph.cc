#include "nn/onnx/graph/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "core/tensor/factories.h"

namespace dl::onnx {
namespace {

// The product of the sizes.
std::int64_t count(const Shape& sizes) {
  std::int64_t result = 1;
  for (const std::int64_t size : sizes) result *= size;
  return result;
}

}  // namespace

bool is_same_tensor(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  return a.nbytes() == 0 || a.data_ptr() == b.data_ptr() ||
         std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

std::int64_t onnx_type(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF32:
      return 1;
    case DType::kU8:
      return 2;
    case DType::kI8:
      return 3;
    case DType::kU16:
      return 4;
    case DType::kI16:
      return 5;
    case DType::kI32:
      return 6;
    case DType::kI64:
      return 7;
    case DType::kBool:
      return 9;
    case DType::kF16:
      return 10;
    case DType::kF64:
      return 11;
    case DType::kU32:
      return 12;
    case DType::kU64:
      return 13;
    case DType::kBF16:
      return 16;
  }
  return 0;
}

std::string Builder::new_name(std::string_view op) {
  std::string lower(op);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string name;
  do {
    name = fmt::format("{}_{}", lower, ++counts_[lower]);
  } while (taken_.contains(name));
  return name;
}

void Builder::add_input(Port port) {
  known_[port.name] = {.name = port.name, .sizes = port.sizes, .dtype = port.dtype};
  graph.inputs.push_back(std::move(port));
}

std::vector<Value> Builder::add_all(std::string_view op, const std::vector<std::string>& inputs,
                                    const std::vector<std::pair<Shape, DType>>& outputs,
                                    Attributes attributes) {
  const std::size_t typed = op == "Where" ? 1 : 0;  // an input of the type that counts
  const auto found = inputs.size() > typed ? known_.find(inputs[typed]) : known_.end();
  if (found == known_.end()) return add_node(op, inputs, outputs, std::move(attributes));
  const DType given = found->second.dtype;
  const DType wide = computed_as(op, given);
  if (wide == given) return add_node(op, inputs, outputs, std::move(attributes));
  std::vector<std::string> wider;
  for (const std::string& input : inputs) {
    const auto each = known_.find(input);
    const bool is_cast = each != known_.end() && each->second.dtype == given;
    wider.push_back(is_cast ? cast(Value(each->second), wide).name : input);
  }
  std::vector<std::pair<Shape, DType>> of_node = outputs;
  for (auto& [sizes, dtype] : of_node) {
    if (dtype == given) dtype = wide;
  }
  std::vector<Value> values = add_node(op, wider, of_node, std::move(attributes));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = cast(values[i], outputs[i].second);
  return values;
}

std::vector<Value> Builder::add_node(std::string_view op, const std::vector<std::string>& inputs,
                                     const std::vector<std::pair<Shape, DType>>& outputs,
                                     Attributes attributes) {
  Node node{
      .op = std::string(op), .inputs = inputs, .outputs = {}, .attributes = std::move(attributes)};
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
  std::vector<Value> values;
  for (const auto& [sizes, dtype] : outputs) {
    values.push_back({.name = new_name(op), .sizes = sizes, .dtype = dtype});
    node.outputs.push_back(values.back().name);
    known_[values.back().name] = values.back();
  }
  graph.nodes.push_back(std::move(node));
  return values;
}

Value Builder::add(std::string_view op, const std::vector<std::string>& inputs, const Shape& sizes,
                   DType dtype, Attributes attributes) {
  return add_all(op, inputs, {{sizes, dtype}}, std::move(attributes)).front();
}

Value Builder::sizes(const Dims& numbers) {
  const Tensor tensor =
      empty(Shape{static_cast<std::int64_t>(numbers.size())}, {.dtype = DType::kI64});
  std::ranges::copy(numbers, tensor.data<std::int64_t>());
  const Value value = constant(tensor);
  graph.constants.back().is_sizes = true;
  return value;
}

Value Builder::number(Scalar value, DType dtype) {
  Value result = constant(full({}, value, {.dtype = dtype}));
  result.filled = value;
  return result;
}

Value Builder::constant(const Tensor& tensor) {
  graph.constants.push_back({.name = new_name("constant"), .tensor = tensor.detach().contiguous()});
  return known(graph.constants.back().name, tensor);
}

Value Builder::parameter(const std::string& name, const Tensor& tensor) {
  graph.constants.push_back(
      {.name = name, .tensor = tensor.detach().cpu().contiguous(), .is_parameter = true});
  return known(name, tensor);
}

Value Builder::known(const std::string& name, const Tensor& tensor) {
  return known_[name] = {.name = name, .sizes = tensor.sizes(), .dtype = tensor.dtype()};
}

Value Builder::filled(const Shape& sizes, Scalar value, DType dtype) {
  if (sizes.empty()) return number(value, dtype);
  if (dtype == DType::kBF16) {  // ConstantOfShape does not give it
    Value result = cast(filled(sizes, value, DType::kF32), dtype);
    result.filled = value;
    return result;
  }
  const Tensor one = full({1}, value, {.dtype = dtype});
  Value result = add("ConstantOfShape", {this->sizes(sizes).name}, sizes, dtype, {{"value", one}});
  result.filled = value;
  return result;
}

Value Builder::unary(std::string_view op, const Value& x, Attributes attributes) {
  return add(op, {x.name}, x.sizes, x.dtype, std::move(attributes));
}

Value Builder::binary(std::string_view op, const Value& a, const Value& b) {
  return add(op, {a.name, b.name}, broadcast_shapes(a.sizes, b.sizes, op), a.dtype);
}

Value Builder::compare(std::string_view op, const Value& a, const Value& b) {
  return add(op, {a.name, b.name}, broadcast_shapes(a.sizes, b.sizes, op), DType::kBool);
}

Value Builder::where(const Value& condition, const Value& a, const Value& b) {
  const Shape sizes =
      broadcast_shapes(broadcast_shapes(condition.sizes, a.sizes, "Where"), b.sizes, "Where");
  if (a.dtype == DType::kBool) {  // onnxruntime does not select bool
    const Value no = unary("Not", condition);
    return compare("Or", compare("And", condition, a), compare("And", no, b));
  }
  return add("Where", {condition.name, a.name, b.name}, sizes, a.dtype);
}

Value Builder::cast(const Value& x, DType dtype) {
  if (x.dtype == dtype) return x;
  return add("Cast", {x.name}, x.sizes, dtype, {{"to", onnx_type(dtype)}});
}

Value Builder::reshape(const Value& x, const Shape& sizes) {
  if (x.sizes == sizes) return x;
  const auto before = reshaped_.find(x.name);
  const Value from = before == reshaped_.end() ? x : before->second;
  if (from.sizes == sizes) return from;
  Value result = add("Reshape", {from.name, this->sizes(sizes).name}, sizes, x.dtype);
  result.filled = x.filled;
  reshaped_[result.name] = from;
  return result;
}

Value Builder::transpose(const Value& x, const std::vector<std::size_t>& order) {
  if (std::ranges::is_sorted(order)) return x;
  std::vector<std::int64_t> perm(order.begin(), order.end());
  Shape sizes;
  for (const std::size_t d : order) sizes.push_back(x.sizes[d]);
  return add("Transpose", {x.name}, sizes, x.dtype, {{"perm", perm}});
}

Value Builder::expand(const Value& x, const Shape& sizes) {
  if (x.sizes == sizes) return x;
  return add("Expand", {x.name, this->sizes(sizes).name}, sizes, x.dtype);
}

Value Builder::slice(const Value& x, const Dims& starts, const Dims& counts, const Dims& steps) {
  Dims from;
  Dims to;
  Dims axes;
  Dims by;
  for (std::size_t d = 0; d < counts.size(); ++d) {
    if (counts[d] == x.sizes[d]) continue;
    const std::int64_t step = steps.empty() ? 1 : steps[d];
    from.push_back(starts[d]);
    to.push_back(starts[d] + (counts[d] - 1) * step + 1);
    axes.push_back(static_cast<std::int64_t>(d));
    by.push_back(step);
  }
  if (axes.empty()) return x;
  const Value first = sizes(from);
  const Value end = sizes(to);
  std::vector<std::string> inputs{x.name, first.name, end.name, sizes(axes).name};
  const bool is_stepping = std::ranges::any_of(by, [](std::int64_t each) { return each != 1; });
  if (is_stepping) inputs.push_back(sizes(by).name);
  Value result = add("Slice", inputs, counts, x.dtype);
  result.filled = x.filled;
  return result;
}

Value Builder::concat(const std::vector<Value>& values, std::size_t axis) {
  if (values.size() == 1) return values.front();
  Shape shape = values.front().sizes;
  std::vector<std::string> names;
  shape[axis] = 0;
  for (const Value& value : values) {
    names.push_back(value.name);
    shape[axis] += value.sizes[axis];
  }
  return add("Concat", names, shape, values.front().dtype,
             {{"axis", static_cast<std::int64_t>(axis)}});
}

void remove_unused(Graph& graph) {
  std::set<std::string> needed;
  for (const Port& output : graph.outputs) needed.insert(output.name);
  std::vector<Node> kept;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    const auto is_needed = [&](const std::string& name) { return needed.contains(name); };
    if (std::ranges::none_of(node.outputs, is_needed)) continue;
    needed.insert(node.inputs.begin(), node.inputs.end());
    kept.push_back(std::move(node));
  }
  std::ranges::reverse(kept);
  graph.nodes = std::move(kept);
  std::erase_if(graph.constants,
                [&](const Constant& constant) { return !needed.contains(constant.name); });
}

void unite_constants(Graph& graph) {
  std::map<std::string, std::string> renamed;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<const Constant*>> seen;
  std::vector<Constant> kept;
  kept.reserve(graph.constants.size());  // `seen` points into it
  std::set<std::string> taken;
  for (const Constant& each : graph.constants) {
    if (each.is_parameter) taken.insert(each.name);
  }
  for (const Port& input : graph.inputs) taken.insert(input.name);
  for (const Node& node : graph.nodes) taken.insert(node.outputs.begin(), node.outputs.end());
  int number = 0;
  for (Constant& constant : graph.constants) {
    if (constant.is_parameter) {
      kept.push_back(std::move(constant));
      continue;
    }
    const Tensor& tensor = constant.tensor;
    auto& alike = seen[{onnx_type(tensor.dtype()), count(tensor.sizes())}];
    const auto equal = std::ranges::find_if(
        alike, [&](const Constant* other) { return is_same_tensor(other->tensor, tensor); });
    if (equal != alike.end()) {
      renamed[constant.name] = (*equal)->name;
      continue;
    }
    std::string name;
    do {
      name = fmt::format("constant_{}", ++number);
    } while (taken.contains(name));
    renamed[constant.name] = name;
    constant.name = name;
    kept.push_back(std::move(constant));
    alike.push_back(&kept.back());
  }
  graph.constants = std::move(kept);
  for (Node& node : graph.nodes) {
    for (std::string& input : node.inputs) {
      if (const auto found = renamed.find(input); found != renamed.end()) input = found->second;
    }
  }
}

void name_outputs(Graph& graph, const std::vector<std::string>& values) {
  std::map<std::string, std::string> renamed;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto makes = [&](const Node& node) {
      return std::ranges::find(node.outputs, values[i]) != node.outputs.end();
    };
    const bool is_made = std::ranges::any_of(graph.nodes, makes);
    const bool is_first = renamed.try_emplace(values[i], graph.outputs[i].name).second;
    if (is_made && is_first) continue;
    // An input, a constant, or a value that is an output already.
    graph.nodes.push_back({.op = "Identity",
                           .inputs = {values[i]},
                           .outputs = {graph.outputs[i].name},
                           .attributes = {}});
    if (!is_made) renamed.erase(values[i]);
  }
  for (Node& node : graph.nodes) {
    for (auto* const names : {&node.inputs, &node.outputs}) {
      for (std::string& name : *names) {
        if (const auto found = renamed.find(name); found != renamed.end()) name = found->second;
      }
    }
  }
}

}  // namespace dl::onnx
