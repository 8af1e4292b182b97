#include "core/tape/plan/memory.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "core/memory/allocator.h"
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

void keep_during(const Recording& recording, const Chain& chain,
                 const std::vector<std::size_t>& holders, std::vector<Lifetime>& lives) {
  const std::vector<std::size_t> members = chain.members();
  const auto first = static_cast<std::int64_t>(members.front());
  const auto last = static_cast<std::int64_t>(members.back());
  for (const std::size_t i : members) {
    for (const Operand& operand : std::as_const(*recording.steps[i]).operands()) {
      if (operand.block == Operand::kUndefined) continue;
      Lifetime& life = lives[holders[static_cast<std::size_t>(operand.block)]];
      life.first = std::min(life.first, first);
      life.last = std::max(life.last, last);
    }
  }
}

}  // namespace

MemoryPlan plan_memory(const Recording& recording, const std::vector<Chain>& chains) {
  MemoryPlan plan{.holders = Reuses(recording).find(), .shared = {}, .arena = {}};
  const std::vector<Block>& blocks = recording.blocks;
  std::vector<Lifetime> lives;
  for (const Block& block : blocks) lives.push_back({block.bytes, block.first, block.last});
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Lifetime& life = lives[plan.holders[i]];
    life.last = std::max(life.last, blocks[i].last);
  }
  for (const Chain& chain : chains) keep_during(recording, chain, plan.holders, lives);
  std::vector<Lifetime> lifetimes;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].storage || blocks[i].last < 0) continue;
    plan.separate_bytes += blocks[i].bytes;
    if (plan.holders[i] != i) continue;
    lifetimes.push_back(lives[i]);
    plan.shared.push_back(i);
  }
  plan.arena = plan_arena(lifetimes, memory::kAlignment);
  return plan;
}

}  // namespace dl::tape
