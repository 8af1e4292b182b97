#include "core/tape/tape.h"

#include <algorithm>
#include <exception>
#include <ranges>
#include <utility>
#include <vector>

#include "core/memory/allocator.h"
#include "core/memory/storage.h"
#include "core/profiler/span.h"
#include "core/tensor/tensor_impl.h"

namespace dl::tape {

Tape::Tape(Recording recording)
    : recording_(std::move(recording)),
      chains_(find_chains(recording_)),
      memory_(plan_memory(recording_, chains_)) {}

void Tape::bind() {
  memory::release_cached();
  const Ref<Storage> arena = Storage::make(memory_.arena.bytes, Device{});
  std::vector<Ref<Storage>> memory(recording_.blocks.size());
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = recording_.blocks[i].storage;
  for (std::size_t i = 0; i < memory_.shared.size(); ++i) {
    const std::size_t block = memory_.shared[i];
    memory[block] = Storage::wrap(static_cast<char*>(arena->data()) + memory_.arena.offsets[i],
                                  recording_.blocks[block].bytes, Device{}, arena);
  }
  for (const auto& step : recording_.steps) {
    for (Operand& operand : step->operands()) {
      if (operand.block == Operand::kUndefined) continue;
      operand.bound = Tensor(make_ref<TensorImpl>(
          memory[memory_.holders[static_cast<std::size_t>(operand.block)]], operand.sizes,
          operand.strides, operand.first / static_cast<std::int64_t>(size_of(operand.dtype)),
          operand.dtype));
    }
  }
  link();
}

void Tape::link() {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> chain_of(recording_.steps.size(), kNone);
  for (std::size_t c = 0; c < chains_.size(); ++c) {
    for (const std::size_t i : chains_[c].members()) chain_of[i] = c;
  }
  for (std::size_t i = 0; i < chain_of.size(); ++i) {
    if (chain_of[i] == kNone) {
      links_.emplace_back(*recording_.steps[i]);
      continue;
    }
    const Chain& chain = chains_[chain_of[i]];
    if (i == chain.place) links_.emplace_back(chain, recording_);
  }
}

bool Tape::can_run() const {
  return std::ranges::all_of(recording_.conditions,
                             [](const Recording::Condition& condition) { return condition(); });
}

void Tape::run() {
  if (links_.empty()) bind();
  try {
    for (Link& link : links_) {
      const profiler::Span span({link.name()}, profiler::Category::kOperation);
      link.run();
    }
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    for (const auto& step : std::views::reverse(recording_.steps)) step->abandon(error);
    throw;
  }
}

}  // namespace dl::tape
