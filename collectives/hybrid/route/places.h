// Places: which ranks of a group share a node. Values and a pure function; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace dl::collectives::hybrid {

struct Places {
  std::vector<std::vector<int>> nodes;  // their ranks, in rank order; nodes by their first rank
  std::vector<int> node_of;             // a rank's node
  std::vector<int> index_of;            // its place among the ranks of that node
  bool is_even = false;                 // every node has the same number of ranks
  bool is_in_order = false;             // rank = node * (ranks a node) + index, for every rank

  // Number of ranks a node that carry data between nodes; these are the ranks with the lowest
  // indices. All ranks if the nodes are even, else the first of each node.
  int carriers() const { return is_even ? static_cast<int>(nodes.front().size()) : 1; }
};

// `names`: by rank, equal for ranks that share a node; not empty.
Places places_of(std::span<const std::string> names);

}  // namespace dl::collectives::hybrid
