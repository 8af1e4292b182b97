// Trace: the operations of one forward pass, as steps on blocks of memory, in which one can follow
// each element.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/memory/storage.h"
#include "core/tape/recorder.h"
#include "nn/module/module.h"

namespace dl::nn::utils::prune::detail {

// A parameter or buffer of a module. If NAME is pruned, the module has NAME, not NAME_orig and
// NAME_mask.
struct OfModule {
  Module* module;
  std::string path;  // the module's; "" for the network itself
  std::string name;
  bool is_parameter;
  Tensor value;

  std::string str() const { return path.empty() ? name : path + "." + name; }
};
std::vector<OfModule> tensors_of(Module& network);

// One call of the network on a sample, after eval() and without gradients. Its last step copies the
// result.
//
// Its blocks have memory of their own, with the values from before the call, so its steps can run
// again, in order, also with other values.
class Trace {
 public:
  // Throws kNotImplemented if the pass is more than a sequence of operations on a CPU.
  Trace(Module& network, const Tensor& sample);

  std::vector<std::unique_ptr<tape::Step>>& steps() { return recording_.steps; }
  std::size_t block_count() const { return recording_.blocks.size(); }
  const tape::Block& block(std::int64_t number) const {
    return recording_.blocks[static_cast<std::size_t>(number)];
  }
  bool is_sample(std::int64_t block) const;
  // The memory of a block, as a vector.
  Tensor memory(std::int64_t block, DType dtype) const;
  // The tensor that is an operand's block; -1: none.
  std::int64_t tensor_in(std::int64_t block) const {
    return tensor_in_[static_cast<std::size_t>(block)];
  }
  const std::vector<OfModule>& tensors() const { return tensors_; }

 private:
  void record(Module& network);
  void bind();

  Tensor sample_;
  std::vector<OfModule> tensors_;
  tape::Recording recording_;
  std::vector<Ref<Storage>> memory_;  // of each block
  std::vector<std::int64_t> tensor_in_;
};

}  // namespace dl::nn::utils::prune::detail
