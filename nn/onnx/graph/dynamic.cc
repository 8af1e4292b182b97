#include "nn/onnx/graph/dynamic.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "nn/onnx/graph/ramp.h"

namespace dl::onnx {
namespace {

// A number as base + slopes[0] * first symbol + ...
struct Linear {
  std::int64_t base = 0;
  std::vector<std::int64_t> slopes;

  bool is_fixed() const {
    return std::ranges::all_of(slopes, [](std::int64_t slope) { return slope == 0; });
  }
  // The only symbol that the number is; none if it is another number.
  std::optional<std::size_t> symbol() const {
    const auto ones = std::ranges::count(slopes, 1);
    const auto zeros = std::ranges::count(slopes, 0);
    const bool is_symbol = base == 0 && ones == 1 && zeros + 1 == std::ssize(slopes);
    if (!is_symbol) return std::nullopt;
    return static_cast<std::size_t>(std::ranges::find(slopes, 1) - slopes.begin());
  }
  auto operator<=>(const Linear&) const = default;
};

bool is_same_value(const Attribute::Value& a, const Attribute::Value& b) {
  if (a.index() != b.index()) return false;
  const auto* const tensor = std::get_if<Tensor>(&a);
  if (tensor != nullptr) return is_same_tensor(*tensor, std::get<Tensor>(b));
  return std::visit(
      [&]<typename T>(const T& value) {
        if constexpr (std::is_same_v<T, Tensor>)
          return false;
        else
          return value == std::get<T>(b);
      },
      a);
}

std::span<const std::int64_t> numbers_of(const Tensor& tensor) {
  return {tensor.data<std::int64_t>(), static_cast<std::size_t>(tensor.numel())};
}

void check_nodes(const Graph& a, const Graph& b) {
  for (std::size_t i = 0; i < std::min(a.nodes.size(), b.nodes.size()); ++i) {
    const Node& x = a.nodes[i];
    const Node& y = b.nodes[i];
    const bool is_same = x.inputs == y.inputs && x.outputs == y.outputs;
    DL_CHECK(x.op != y.op || is_same, kNotImplemented,
             "node {}, a {}, reads other results for one size of a dynamic axis than for another; "
             "write a forward that calls the same operations for all sizes, or make the axis fixed",
             i + 1, x.op);
    DL_CHECK(x.op == y.op, kNotImplemented,
             "node {} is {} for one size of a dynamic axis and {} for another; write a forward "
             "that calls the same operations for all sizes, or make the axis fixed",
             i + 1, x.op, y.op);
    for (std::size_t k = 0; k < x.attributes.size(); ++k) {
      DL_CHECK(is_same_value(x.attributes[k].value, y.attributes[k].value), kNotImplemented,
               "the {} of {} (node {}) depends on a dynamic axis, but ONNX has one number there; "
               "make the axis fixed",
               x.attributes[k].name, x.op, i + 1);
    }
  }
  DL_CHECK(a.nodes.size() == b.nodes.size(), kNotImplemented,
           "the forward calls {} operations for one size of a dynamic axis and {} for another; "
           "make the axis fixed",
           a.nodes.size(), b.nodes.size());
}

class Merge {
 public:
  Merge(Builder& builder, std::vector<Capture>& captures, const std::vector<Symbol>& symbols)
      : builder_(builder), captures_(captures), symbols_(symbols) {}

  Graph run() {
    Graph& graph = captures_.front().graph;
    for (const Capture& other : captures_) check_nodes(graph, other.graph);
    const std::size_t count = graph.constants.size();
    for (const Capture& other : captures_) {
      DL_CHECK(other.graph.constants.size() == count, kInternal,
               "export_model: two captures have {} and {} constants", count,
               other.graph.constants.size());
    }
    builder_.graph = {};
    for (std::size_t i = 0; i < count; ++i) merge_constant(i);
    mark_ports(graph);
    // What computes sizes comes first: it reads inputs and constants only.
    std::vector<Node> nodes = std::move(builder_.graph.nodes);
    for (Node& node : graph.nodes) {
      for (std::string& input : node.inputs) {
        if (const auto found = computed_.find(input); found != computed_.end()) {
          input = found->second;
        }
      }
      nodes.push_back(std::move(node));
    }
    graph.nodes = std::move(nodes);
    for (Constant& constant : builder_.graph.constants) {
      graph.constants.push_back(std::move(constant));
    }
    return std::move(graph);
  }

 private:
  Graph& base() { return captures_.front().graph; }

  // Number k of constant i in all captures, as a function of the symbols; none: it is not linear.
  template <typename At>
  std::optional<Linear> linear(const At& at) const {
    const Capture& first = captures_.front();
    Linear result{.base = at(first.graph), .slopes = {}};
    for (std::size_t s = 0; s < symbols_.size(); ++s) {
      const Capture& moved = captures_[s + 1];
      const std::int64_t by = moved.sizes[s] - first.sizes[s];
      const std::int64_t change = at(moved.graph) - at(first.graph);
      if (change % by != 0) return std::nullopt;
      result.slopes.push_back(change / by);
      result.base -= result.slopes.back() * first.sizes[s];
    }
    for (const Capture& capture : captures_) {
      std::int64_t expected = result.base;
      for (std::size_t s = 0; s < symbols_.size(); ++s) {
        expected += result.slopes[s] * capture.sizes[s];
      }
      if (expected != at(capture.graph)) return std::nullopt;
    }
    return result;
  }

  std::vector<const Node*> readers_of(const std::string& name) {
    std::vector<const Node*> readers;
    for (const Node& node : base().nodes) {
      if (std::ranges::find(node.inputs, name) != node.inputs.end()) readers.push_back(&node);
    }
    return readers;
  }

  void merge_constant(std::size_t i) {
    Constant& constant = base().constants[i];
    const auto is_equal = [&](const Capture& capture) {
      return is_same_tensor(capture.graph.constants[i].tensor, constant.tensor);
    };
    if (std::ranges::all_of(captures_, is_equal)) return;
    const std::vector<const Node*> readers = readers_of(constant.name);
    const std::string reader = readers.empty() ? std::string("an output") : readers.front()->op;
    const auto has_length = [&](const Capture& capture) {
      return capture.graph.constants[i].tensor.sizes() == constant.tensor.sizes();
    };
    if (!constant.is_sizes) {
      const std::optional<Value> ramp = ramp_for(i);
      DL_CHECK(ramp, kNotImplemented,
               "a constant that {} reads has other values for other sizes of a dynamic axis; "
               "compute it from the input, or make the axis fixed",
               reader);
      computed_[constant.name] = ramp->name;
      return;
    }
    DL_CHECK(std::ranges::all_of(captures_, has_length), kNotImplemented,
             "{} has another number of sizes for other sizes of a dynamic axis; make an axis fixed",
             reader);
    const auto length = static_cast<std::size_t>(constant.tensor.numel());
    const bool is_shape = std::ranges::all_of(readers, [&](const Node* node) {
      return node->op == "Reshape" && node->inputs[0] != constant.name;
    });
    std::size_t different = 0;
    std::size_t place = 0;
    for (std::size_t k = 0; k < length; ++k) {
      const auto differs = [&](const Capture& capture) {
        return numbers_of(capture.graph.constants[i].tensor)[k] != numbers_of(constant.tensor)[k];
      };
      if (std::ranges::none_of(captures_, differs)) continue;
      ++different;
      place = k;
    }
    if (is_shape && different == 1) {
      const Tensor inferred = constant.tensor.clone();
      inferred.data<std::int64_t>()[place] = -1;
      constant.tensor = inferred;
      return;
    }
    std::vector<Value> parts;
    for (std::size_t k = 0; k < length; ++k) {
      const auto number =
          linear([&](const Graph& graph) { return numbers_of(graph.constants[i].tensor)[k]; });
      DL_CHECK(number, kNotImplemented,
               "a size that {} reads is no linear function of the dynamic axes; make an axis fixed",
               reader);
      parts.push_back(computed(*number));
    }
    computed_[constant.name] = builder_.concat(parts, 0).name;
  }

  // Nodes that compute constant i, if it is a ramp in all captures.
  std::optional<Value> ramp_for(std::size_t i) {
    const Tensor& tensor = base().constants[i].tensor;
    const std::size_t rank = tensor.sizes().size();
    std::map<const Graph*, Ramp> ramps;
    for (const Capture& capture : captures_) {
      const Tensor& other = capture.graph.constants[i].tensor;
      const auto ramp = other.dtype() == tensor.dtype() && other.sizes().size() == rank
                            ? ramp_of(other)
                            : std::nullopt;
      if (!ramp) return std::nullopt;
      ramps[&capture.graph] = *ramp;
    }
    const auto start = linear([&](const Graph& graph) { return ramps[&graph].base; });
    if (!start) return std::nullopt;
    std::optional<Value> sum;
    if (!start->is_fixed() || start->base != 0) sum = computed(*start);
    std::vector<Value> sizes;
    bool is_repeated = false;
    for (std::size_t d = 0; d < rank; ++d) {
      const auto size =
          linear([&](const Graph& graph) { return graph.constants[i].tensor.sizes()[d]; });
      const auto step = linear([&](const Graph& graph) { return ramps[&graph].steps[d]; });
      if (!size || !step) return std::nullopt;
      sizes.push_back(computed(*size));
      const bool is_flat = step->is_fixed() && step->base == 0;
      is_repeated |= is_flat && !(size->is_fixed() && size->base == 1);
      if (is_flat) continue;
      const Value line = along(d, rank, sizes.back(), *step);
      sum = sum ? builder_.binary("Add", *sum, line) : line;
    }
    if (!sum) sum = computed(*start);
    if (rank == 0) sum = builder_.reshape(*sum, {});
    if (is_repeated) {
      sum = builder_.add("Expand", {sum->name, builder_.concat(sizes, 0).name}, tensor.sizes(),
                         DType::kI64);
    }
    return builder_.cast(*sum, tensor.dtype());
  }

  // 0, step, 2 step, ... along dimension d.
  Value along(std::size_t d, std::size_t rank, const Value& size, const Linear& step) {
    const Value zero = builder_.number(0, DType::kI64);
    const Value one = builder_.number(1, DType::kI64);
    const Value count = builder_.reshape(size, {});
    Value numbers = builder_.add("Range", {zero.name, count.name, one.name}, {1}, DType::kI64);
    if (!step.is_fixed() || step.base != 1) {
      numbers = builder_.binary("Mul", numbers, computed(step));
    }
    Shape line(rank, 1);
    line[d] = -1;
    if (rank == 1) return numbers;
    return builder_.add("Reshape", {numbers.name, builder_.sizes(line).name}, Shape(rank, 1),
                        DType::kI64);
  }

  // The number as int64 [1].
  Value computed(const Linear& number) {
    if (const auto found = numbers_.find(number); found != numbers_.end()) return found->second;
    std::optional<Value> sum;
    for (std::size_t s = 0; s < symbols_.size(); ++s) {
      const std::int64_t slope = number.slopes[s];
      if (slope == 0) continue;
      const Value size = size_of_symbol(s);
      const Value term = slope == 1 ? size : builder_.binary("Mul", size, builder_.sizes({slope}));
      sum = sum ? builder_.binary("Add", *sum, term) : term;
    }
    if (!sum) {
      sum = builder_.sizes({number.base});
    } else if (number.base != 0) {
      sum = builder_.binary("Add", *sum, builder_.sizes({number.base}));
    }
    return numbers_[number] = *sum;
  }

  Value size_of_symbol(std::size_t s) {
    if (const auto found = sizes_.find(s); found != sizes_.end()) return found->second;
    const Symbol& symbol = symbols_[s];
    const auto axis = static_cast<std::int64_t>(symbol.axis);
    const Port& input = base().inputs[symbol.input];
    return sizes_[s] = builder_.add("Shape", {input.name}, {1}, DType::kI64,
                                    {{"end", axis + 1}, {"start", axis}});
  }

  void mark_ports(Graph& graph) {
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      Port& port = graph.outputs[i];
      port.symbols.resize(port.sizes.size());
      port.unknown.resize(port.sizes.size());
      for (std::size_t d = 0; d < port.sizes.size(); ++d) {
        const auto size = linear([&](const Graph& each) { return each.outputs[i].sizes[d]; });
        if (size && size->is_fixed()) continue;
        if (size && size->symbol()) {
          port.symbols[d] = symbols_[*size->symbol()].name;
        } else {
          port.unknown[d] = true;
        }
      }
    }
  }

  Builder& builder_;
  std::vector<Capture>& captures_;
  const std::vector<Symbol>& symbols_;
  std::map<Linear, Value> numbers_;
  std::map<std::size_t, Value> sizes_;
  std::map<std::string, std::string> computed_;  // constants that nodes compute
};

}  // namespace

Graph merge(Builder& builder, std::vector<Capture> captures, const std::vector<Symbol>& symbols) {
  return Merge(builder, captures, symbols).run();
}

}  // namespace dl::onnx
