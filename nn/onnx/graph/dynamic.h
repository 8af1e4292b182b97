// One graph for all sizes, from graphs that were captured with some.
//
// Captures of one function have the same nodes; what differs between them are numbers of constants
// marked is_sizes. Each such number must be a linear function of the dynamic sizes, and becomes
// nodes that compute it, or the -1 of a Reshape. Any other difference is refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/onnx/graph/graph.h"

namespace dl::onnx {

// A dynamic size: that of dimension `axis` of input number `input`.
struct Symbol {
  std::string name;
  std::size_t input = 0;
  std::size_t axis = 0;
};

struct Capture {
  Graph graph;
  std::vector<std::int64_t> sizes;  // of the symbols
};

// captures[0], then for each symbol one with another size of this symbol alone, then at least one
// in which all differ. `builder` has made captures[0].graph. Throws kNotImplemented.
Graph merge(Builder& builder, std::vector<Capture> captures, const std::vector<Symbol>& symbols);

}  // namespace dl::onnx
