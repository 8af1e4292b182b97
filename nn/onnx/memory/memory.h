// Memory: which value of the graph the elements of a recording's blocks have, step after step.
//
// A recording knows no views: its steps read and write tensors, which are regions of blocks. A
// value that is written becomes a piece of its block. A read finds the pieces that the region
// covers, and adds the nodes that make the tensor of them: Reshape, Transpose, Slice, Concat,
// Expand. So cat(), which copies into the parts of a new block, is a Concat again, and a write into
// a part of a tensor cuts the piece that was there.
//
// Memory from before the recording has the values of inputs and parameters; other memory, and what
// the program itself has filled, is a constant. One thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/tape/recorder.h"
#include "nn/onnx/graph/graph.h"
#include "nn/onnx/memory/region.h"
#include "nn/serialize/state_dict.h"

namespace dl::onnx {

class Memory {
 public:
  // All must outlive it.
  Memory(Builder& builder, const tape::Recording& recording,
         std::span<const nn::NamedTensor> tensors);

  // The value of an operand. With `broadcasts`, its dimensions of stride 0 have the size 1.
  Value read(const tape::Operand& operand, bool broadcasts = false);
  // `value` has the operand's shape; a value of another dtype is cast.
  void write(const tape::Operand& operand, const Value& value);
  // An input of the graph, which lies in memory from before the recording.
  void set_input(const tape::Operand& operand, const Value& value);
  // The elements around an operand, in the order of memory: a dense piece of one dimension, as an
  // operand, that contains all its elements. Throws kNotImplemented if there is none.
  tape::Operand around(const tape::Operand& operand);

 private:
  struct Piece {
    Region region;
    Value value;
  };
  using Pieces = std::vector<Piece>;

  Pieces& pieces_of(const tape::Operand& operand);
  Value read_region(const Pieces& pieces, const Region& region, bool broadcasts);
  Value joined(std::vector<const Piece*> pieces, const Region& region, bool broadcasts);
  // A region of one piece that is no box: every so many-th element, else by a list of indices.
  Value picked(const Piece& piece, const Region& region, bool broadcasts);
  std::optional<Value> by_steps(const Piece& piece, const Region& region, bool broadcasts);
  Value by_index(const Piece& piece, const Region& region);
  // Replaces elements of the piece by a list of indices.
  void scatter(Piece& piece, const Region& region, const Value& value);
  Value constant(const tape::Operand& operand);
  bool pads(Piece& piece, const Region& region, const Value& value);
  void cut(const Piece& piece, const Box& box, const Box& hole, const Levels& levels,
           Pieces& remaining);

  Builder& builder_;
  const tape::Recording& recording_;
  std::span<const nn::NamedTensor> tensors_;
  std::map<std::int64_t, Pieces> pieces_;  // by block
  std::set<std::int64_t> changed_;         // blocks that steps write
};

}  // namespace dl::onnx
