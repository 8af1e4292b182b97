#include "core/tape/recorder.h"

#include <fmt/core.h>

#include <algorithm>
#include <typeinfo>

#include "core/memory/storage.h"
#include "core/tensor/tensor_impl.h"

namespace dl::tape {

std::string Step::difference(const Step& other) const {
  if (typeid(*this) != typeid(other) || name_ != other.name_) {
    return fmt::format("{} was {}", other.name_, name_);
  }
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (!operands_[i].same_as(other.operands_[i])) {
      return fmt::format("tensor {} of {} is another one", i + 1, name_);
    }
  }
  return has_same_numbers(other) ? std::string() : fmt::format("a number of {} differs", name_);
}

std::string difference(const Recording& a, const Recording& b) {
  for (std::size_t i = 0; i < std::min(a.steps.size(), b.steps.size()); ++i) {
    const std::string why = a.steps[i]->difference(*b.steps[i]);
    if (!why.empty()) return fmt::format("step {}: {}", i + 1, why);
  }
  if (a.steps.size() != b.steps.size()) {
    return fmt::format("it has {} steps, and had {}", b.steps.size(), a.steps.size());
  }
  for (std::size_t i = 0; i < a.blocks.size(); ++i) {
    const bool same_memory =
        !a.blocks[i].is_older || a.blocks[i].storage.get() == b.blocks[i].storage.get();
    if (a.blocks[i].bytes != b.blocks[i].bytes || !same_memory) {
      return fmt::format("block {} of its memory is another one", i + 1);
    }
  }
  return "";
}

Recorder::Recorder() {
  DL_CHECK(dl::detail::thread_watch == nullptr, kInvalidArgument,
           "compile: a compiled function was called while this thread records another one");
  dl::detail::thread_watch = this;
}

Recorder::~Recorder() {
  dl::detail::thread_watch = nullptr;
}

Recording Recorder::finish() {
  inside_ = 1;
  // What lives on, a gradient or a result, keeps its memory.
  for (const auto& [begin, number] : living_) {
    recording_.blocks[static_cast<std::size_t>(number)].storage =
        Ref<Storage>(const_cast<Storage*>(storage_of_.at(begin)));
  }
  return std::move(recording_);
}

void Recorder::run_host(std::string_view name, const std::function<void()>& act,
                        HostStep::Failed failed) {
  did(name, act, std::move(failed));
  const Inside inside(*this);
  act();
}

void Recorder::did(std::string_view name, std::function<void()> again, HostStep::Failed failed) {
  add(std::make_unique<HostStep>(std::string(name), std::move(again), std::move(failed)), 0);
}

void Recorder::require(const void* object, Recording::Condition condition) {
  if (settled_.insert(object).second) recording_.conditions.push_back(std::move(condition));
}

void Recorder::refuse(std::string why) {
  if (recording_.refused.empty()) recording_.refused = std::move(why) + after();
}

void Recorder::made(const Storage& storage) {
  if (inside_ > 0 || storage.device().type != DeviceType::kCPU) return;
  const auto* const begin = static_cast<const char*>(storage.data_or_null());
  living_[begin] = static_cast<std::int64_t>(recording_.blocks.size());
  storage_of_[begin] = &storage;
  recording_.blocks.push_back({.bytes = storage.bytes()});
}

void Recorder::freed(const Storage& storage) noexcept {
  const auto* const begin = static_cast<const char*>(storage.data_or_null());
  const auto found = storage_of_.find(begin);
  if (found == storage_of_.end() || found->second != &storage) return;
  storage_of_.erase(found);
  living_.erase(begin);
}

void Recorder::accessed(const Storage& storage) {
  if (inside_ > 0) return;
  if (storage.device().type != DeviceType::kCPU) return;
  Block& block = recording_.blocks[static_cast<std::size_t>(block_at(storage.data(), storage))];
  if (block.is_older || block.last >= 0) {
    return refuse("a tensor is read on the host (item(), data())");
  }
  // The program fills new memory: its values are the same in every run.
  if (!block.storage) block.storage = Ref<Storage>(const_cast<Storage*>(&storage));
}

void Recorder::unrepeatable(std::string_view what) {
  if (inside_ == 0) refuse(std::string(what));
}

std::int64_t Recorder::block_at(const void* address, const Storage& storage) {
  const auto* const at = static_cast<const char*>(address);
  if (auto next = living_.upper_bound(at); next != living_.begin()) {
    const auto& [begin, number] = *std::prev(next);
    const Block& block = recording_.blocks[static_cast<std::size_t>(number)];
    if (at < begin + std::max(block.bytes, std::size_t{1})) return number;
  }
  const auto [place, is_new] =
      older_.emplace(&storage, static_cast<std::int64_t>(recording_.blocks.size()));
  if (is_new) {
    recording_.blocks.push_back({.bytes = storage.bytes(),
                                 .storage = Ref<Storage>(const_cast<Storage*>(&storage)),
                                 .is_older = true});
  }
  return place->second;
}

Operand Recorder::operand_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const TensorImpl& impl = *tensor.impl();
  if (impl.storage->device().type != DeviceType::kCPU) {
    refuse(fmt::format("a tensor is on {}", impl.storage->device().str()));
    return {};
  }
  const auto* const address = static_cast<const char*>(impl.data());
  Operand operand{.block = block_at(address, *impl.storage),
                  .sizes = impl.shape,
                  .strides = impl.strides,
                  .dtype = impl.dtype};
  const auto living = living_.upper_bound(address);
  const Block& block = recording_.blocks[static_cast<std::size_t>(operand.block)];
  const char* const begin =
      block.is_older ? static_cast<const char*>(block.storage->data()) : std::prev(living)->first;
  operand.first = address - begin;
  return operand;
}

void Recorder::add(std::unique_ptr<Step> step, std::size_t results) {
  const auto number = static_cast<std::int64_t>(recording_.steps.size());
  const std::span<const Operand> operands = std::as_const(*step).operands();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].block == Operand::kUndefined) continue;
    Block& block = recording_.blocks[static_cast<std::size_t>(operands[i].block)];
    const bool is_constant = block.storage && !block.is_older;
    const std::size_t changed = std::min(results, operands.size());
    if (is_constant && i >= operands.size() - changed) {
      refuse(fmt::format("{} changes memory that the program has filled", step->name()));
    }
    if (block.last < 0) block.first = number;
    block.last = number;
  }
  recording_.steps.push_back(std::move(step));
}

std::string Recorder::after() const {
  if (recording_.steps.empty()) return ", before the first operation";
  return fmt::format(", after step {} ({})", recording_.steps.size(),
                     recording_.steps.back()->name());
}

}  // namespace dl::tape
