#include "core/tape/reuse.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

#include "core/tape/step.h"
#include "core/tensor/layout/shape.h"

namespace dl::tape {
namespace {

class Reuses {
 public:
  explicit Reuses(const Recording& recording)
      : recording_(recording), holder_(recording.blocks.size()), last_(recording.blocks.size()) {
    std::iota(holder_.begin(), holder_.end(), std::size_t{0});
    for (std::size_t b = 0; b < last_.size(); ++b) last_[b] = recording.blocks[b].last;
  }

  std::vector<std::size_t> find() {
    for (std::size_t i = 0; i < recording_.steps.size(); ++i) visit(i);
    return std::move(holder_);
  }

 private:
  const Block& block_of(const Operand& operand) const {
    return recording_.blocks[static_cast<std::size_t>(operand.block)];
  }
  std::size_t holder_of(const Operand& operand) const {
    return holder_[static_cast<std::size_t>(operand.block)];
  }
  bool is_whole_block(const Operand& operand) const {
    const std::size_t bytes = static_cast<std::size_t>(operand.numel) * size_of(operand.dtype);
    return operand.first == 0 && bytes == block_of(operand).bytes &&
           is_dense(operand.sizes, operand.strides);
  }

  void visit(std::size_t i) {
    const Step& step = *recording_.steps[i];
    const std::span<const Operand> operands = step.operands();
    if (step.is_elementwise()) {
      for (const Operand& input : operands.first(operands.size() - 1)) {
        if (join(i, input, operands.back())) return;
      }
    } else if (step.parts().in_place) {
      join(i, operands[static_cast<std::size_t>(step.parts().read)],
           operands[static_cast<std::size_t>(step.parts().written)]);
    }
  }

  // Whether the result of step i may take the input's memory; then it does.
  bool join(std::size_t i, const Operand& input, const Operand& result) {
    if (input.block == Operand::kUndefined || result.block == Operand::kUndefined) return false;
    const auto now = static_cast<std::int64_t>(i);
    const bool is_shared = !block_of(input).storage && !block_of(result).storage;
    if (!is_shared || input.block == result.block || block_of(result).first != now) return false;
    const std::size_t holder = holder_of(input);
    const bool fits = last_[holder] == now && input.dtype == result.dtype &&
                      input.numel == result.numel && is_whole_block(input) &&
                      is_whole_block(result) && block_of(result).bytes == block_of(input).bytes;
    // Other operands may be parts of the same memory.
    const auto is_other_part = [&](const Operand& operand) {
      return operand.block != Operand::kUndefined && holder_of(operand) == holder &&
             (operand.numel != input.numel || operand.first != input.first ||
              operand.dtype != input.dtype);
    };
    if (!fits || std::ranges::any_of(recording_.steps[i]->operands(), is_other_part)) return false;
    holder_[static_cast<std::size_t>(result.block)] = holder;
    last_[holder] = block_of(result).last;
    return true;
  }

  const Recording& recording_;
  std::vector<std::size_t> holder_;
  std::vector<std::int64_t> last_;  // of the holder's memory
};

}  // namespace

std::vector<std::size_t> find_reuses(const Recording& recording) {
  return Reuses(recording).find();
}

}  // namespace dl::tape
