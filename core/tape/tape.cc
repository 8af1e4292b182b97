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

Tape::Tape(Recording recording) : recording_(std::move(recording)) {
  std::vector<Lifetime> lifetimes;
  for (std::size_t i = 0; i < recording_.blocks.size(); ++i) {
    const Block& block = recording_.blocks[i];
    if (block.storage || block.last < 0) continue;
    lifetimes.push_back({block.bytes, block.first, block.last});
    shared_.push_back(i);
    shared_bytes_ += block.bytes;
  }
  plan_ = plan_arena(lifetimes, memory::kAlignment);
}

void Tape::bind() {
  memory::release_cached();
  const Ref<Storage> arena = Storage::make(plan_.bytes, Device{});
  std::vector<Ref<Storage>> memory(recording_.blocks.size());
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = recording_.blocks[i].storage;
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    memory[shared_[i]] = Storage::wrap(static_cast<char*>(arena->data()) + plan_.offsets[i],
                                       recording_.blocks[shared_[i]].bytes, Device{}, arena);
  }
  for (const auto& step : recording_.steps) {
    for (Operand& operand : step->operands()) {
      if (operand.block == Operand::kUndefined) continue;
      operand.bound = Tensor(make_ref<TensorImpl>(
          memory[static_cast<std::size_t>(operand.block)], operand.sizes, operand.strides,
          operand.first / static_cast<std::int64_t>(size_of(operand.dtype)), operand.dtype));
    }
  }
  is_bound_ = true;
}

bool Tape::can_run() const {
  return std::ranges::all_of(recording_.conditions,
                             [](const Recording::Condition& condition) { return condition(); });
}

void Tape::run() {
  if (!is_bound_) bind();
  try {
    for (const auto& step : recording_.steps) {
      const profiler::Span span({step->name()}, profiler::Category::kOperation);
      step->run();
    }
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    for (const auto& step : std::views::reverse(recording_.steps)) step->abandon(error);
    throw;
  }
}

}  // namespace dl::tape
