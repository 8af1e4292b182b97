// Graph: a function as ONNX has it, a list of nodes that read and write named values; and Builder,
// which adds nodes and knows the shape and dtype of each value.
//
// Graphs are captured with fixed sizes. Numbers that may depend on the sizes of the inputs, such as
// the shape that a Reshape gives, are constants marked is_sizes, so that dynamic.h can compare
// them. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor/dims.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace dl::onnx {

struct Attribute {
  using Value = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, Tensor>;

  std::string name;
  Value value;
};
using Attributes = std::vector<Attribute>;

struct Node {
  std::string op;
  std::vector<std::string> inputs;  // "": one that is left out
  std::vector<std::string> outputs;
  Attributes attributes;
};

// A tensor of the file.
struct Constant {
  std::string name;
  Tensor tensor;              // contiguous, on the CPU
  bool is_parameter = false;  // or a buffer: its name is that of the state_dict
  bool is_sizes = false;      // int64 [n]; may be another one for other sizes of the inputs
};

// An input or output of the graph.
struct Port {
  std::string name;
  DType dtype = DType::kF32;
  Shape sizes;
  std::vector<std::string> symbols{};  // for each dimension; "": its size
  std::vector<bool> unknown{};         // dimensions whose size is computed
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<Constant> constants;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
};

// A value of a graph.
struct Value {
  std::string name;
  Shape sizes;
  DType dtype = DType::kF32;
  std::optional<Scalar> filled{};  // all elements are this number
};

// The number of a dtype in ONNX.
std::int64_t onnx_type(DType dtype) noexcept;
// The dtype that a node computes numbers of `dtype` in: the same one, or a wider one if ONNX has no
// such node. bfloat16 is only moved, and computed in float32 as dlrun does: few nodes take it.
DType computed_as(std::string_view op, DType dtype) noexcept;

// Whether two contiguous tensors have the same dtype, shape and bytes.
bool is_same_tensor(const Tensor& a, const Tensor& b);

class Builder {
 public:
  // A name for the file's own use; no value gets it.
  void reserve(const std::string& name) { taken_.insert(name); }
  void add_input(Port port);

  // One node with one output, of that shape and dtype. If ONNX has no such node for the dtype of
  // the inputs, they are cast to a wider one before it, and the outputs back.
  Value add(std::string_view op, const std::vector<std::string>& inputs, const Shape& sizes,
            DType dtype, Attributes attributes = {});
  std::vector<Value> add_all(std::string_view op, const std::vector<std::string>& inputs,
                             const std::vector<std::pair<Shape, DType>>& outputs,
                             Attributes attributes = {});

  // Constants: sizes, int64 [n]; a number of no dimensions; a tensor; a parameter of that name.
  Value sizes(const Dims& numbers);
  Value number(Scalar value, DType dtype);
  Value constant(const Tensor& tensor);
  Value parameter(const std::string& name, const Tensor& tensor);
  // All elements are `value`.
  Value filled(const Shape& sizes, Scalar value, DType dtype);

  // Operations that several rooms need. One that would change nothing gives the value itself.
  Value unary(std::string_view op, const Value& x, Attributes attributes = {});
  Value binary(std::string_view op, const Value& a, const Value& b);  // of one dtype; broadcasts
  Value binary(std::string_view op, const Value& a, double b) {
    return binary(op, a, number(b, a.dtype));
  }
  Value compare(std::string_view op, const Value& a, const Value& b);  // as binary(), gives bool
  Value where(const Value& condition, const Value& a, const Value& b);
  Value cast(const Value& x, DType dtype);
  Value reshape(const Value& x, const Shape& sizes);
  Value transpose(const Value& x, const std::vector<std::size_t>& order);
  Value expand(const Value& x, const Shape& sizes);
  // Along each dimension counts[i] elements from starts[i] on; with `steps`, every steps[i]-th one.
  Value slice(const Value& x, const Dims& starts, const Dims& counts, const Dims& steps = {});
  Value concat(const std::vector<Value>& values, std::size_t axis);

  Graph graph;

 private:
  std::string new_name(std::string_view op);
  Value known(const std::string& name, const Tensor& tensor);
  std::vector<Value> add_node(std::string_view op, const std::vector<std::string>& inputs,
                              const std::vector<std::pair<Shape, DType>>& outputs,
                              Attributes attributes);

  std::map<std::string, int, std::less<>> counts_;
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, Value> known_;     // all values
  std::map<std::string, Value> reshaped_;  // what a Reshape's output was before
};

// Removes nodes and constants that no output needs.
void remove_unused(Graph& graph);
// Keeps one of equal constants, and numbers the constants that are no parameters.
void unite_constants(Graph& graph);
// Gives the values the names of the outputs that they are.
void name_outputs(Graph& graph, const std::vector<std::string>& values);

}  // namespace dl::onnx
