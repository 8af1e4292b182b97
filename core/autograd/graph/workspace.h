// Workspace: a backward pass's data about the graph: the nodes that it reaches, their gradients,
// and the ready nodes. One thread uses it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/autograd/graph/node.h"
#include "core/autograd/graph/node_index.h"
#include "core/tensor/tensor.h"

namespace dl::autograd {

struct NodeState {
  Node* node;                // the roots keep the graph alive
  std::uint32_t first_slot;  // of its outputs' gradients
  std::uint32_t pending;     // uses of its outputs that have not run yet
  bool announced = false;    // a leaf whose callbacks have run already
  // In a pass of autograd::grad(): whether gradients of outputs are results, and whether the node
  // is on a path to one, so that it has to run.
  bool captured = false;
  bool needed = false;
};

// A gradient that autograd::grad() is to return.
struct Capture {
  Edge edge;
  Tensor gradient;
};

// A node all of whose users have run. The newest one runs first.
struct Ready {
  std::uint64_t sequence;
  std::uint32_t number;
  friend bool operator<(const Ready& a, const Ready& b) noexcept { return a.sequence < b.sequence; }
};

// Kept for the thread's next pass, so that a small step allocates nothing here.
struct Workspace {
  NodeIndex index;
  std::vector<NodeState> states;
  std::vector<Tensor> slots;  // gradients
  std::vector<Ready> ready;
  std::vector<std::uint32_t> unvisited;

  void clear() {
    index.clear();
    states.clear();
    slots.clear();
    ready.clear();
    unvisited.clear();
  }
};

}  // namespace dl::autograd
