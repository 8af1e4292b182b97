#include "core/tape/recorder.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <source_location>
#include <string_view>

#include "core/memory/storage.h"
#include "core/tensor/tensor_impl.h"

namespace dl::tape {
namespace {

// The watch hears of storages that others own; a recording owns them, too, as far as it needs them.
Ref<Storage> held(const Storage& storage) {
  return Ref<Storage>(const_cast<Storage*>(&storage));
}

// "train.cc:42"
std::string line_of(const std::source_location& place) {
  const std::string_view file = place.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), place.line());
}

}  // namespace

std::string difference(const Recording& a, const Recording& b) {
  for (std::size_t i = 0; i < std::min(a.steps.size(), b.steps.size()); ++i) {
    const std::string why = a.steps[i]->difference(*b.steps[i]);
    if (!why.empty()) return fmt::format("step {}: {}", i + 1, why);
  }
  if (a.steps.size() != b.steps.size()) {
    return fmt::format("it has {} steps, and had {}", b.steps.size(), a.steps.size());
  }
  // The steps are the same, and so are the numbers of the blocks that they use.
  for (std::size_t i = 0; i < a.blocks.size(); ++i) {
    if (a.blocks[i].last < 0) continue;
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
  dl::detail::thread_watch = of_thread_ = this;
}

Recorder::~Recorder() {
  dl::detail::thread_watch = of_thread_ = nullptr;
}

Recording Recorder::finish() {
  inside_ = 1;
  // What lives on, a gradient or a result, keeps its memory.
  for (const auto& [begin, living] : living_) {
    recording_.blocks[static_cast<std::size_t>(living.block)].storage = held(*living.storage);
  }
  return std::move(recording_);
}

void Recorder::gives(const Tensor& result) {
  if (result.defined() && result.numel() > 0) operand_of(result);
}

void Recorder::run_host(std::string_view name, const void* object, const std::function<void()>& act,
                        HostStep::Failed failed) {
  add(std::make_unique<HostStep>(std::string(name), object, act, std::move(failed)));
  const Inside inside(*this);
  act();
}

void Recorder::did(std::string_view name, std::function<void()> again, HostStep::Failed failed) {
  add(std::make_unique<HostStep>(std::string(name), nullptr, std::move(again), std::move(failed)));
}

void Recorder::refuse(std::string why) {
  if (recording_.refused.empty()) recording_.refused = std::move(why) + after();
}

void Recorder::made(const Storage& storage) {
  if (inside_ > 0 || storage.device().type != DeviceType::kCPU) return;
  const auto* const begin = static_cast<const char*>(storage.data_or_null());
  living_[begin] = {static_cast<std::int64_t>(recording_.blocks.size()), &storage};
  recording_.blocks.push_back({.bytes = storage.bytes()});
}

void Recorder::freed(const Storage& storage) noexcept {
  const auto* const begin = static_cast<const char*>(storage.data_or_null());
  const auto found = living_.find(begin);
  if (found != living_.end() && found->second.storage == &storage) living_.erase(found);
}

void Recorder::accessed(const Storage& storage, const std::source_location* reader) {
  if (inside_ > 0) return;
  if (storage.device().type != DeviceType::kCPU) return;
  Block& block =
      recording_.blocks[static_cast<std::size_t>(place_of(storage.data(), storage).block)];
  if (block.is_older || block.last >= 0) {
    return refuse(reader == nullptr ? std::string("a tensor is read on the host (data())")
                                    : fmt::format("a tensor is read on the host (item() in {})",
                                                  line_of(*reader)));
  }
  // The program fills new memory: its values are the same in every run.
  if (!block.storage) block.storage = held(storage);
}

void Recorder::unrepeatable(std::string_view what, RepeatedBy) {
  if (inside_ == 0) refuse(std::string(what));
}

void Recorder::changed(std::string_view what, std::function<void()> again) {
  if (inside_ == 0) did(what, std::move(again));
}

void Recorder::needs(const void* object, std::function<bool()> condition, std::function<void()>) {
  if (inside_ > 0 || !settled_.insert(object).second) return;
  recording_.conditions.push_back(std::move(condition));
}

void Recorder::settled(const void* object) {
  if (inside_ == 0) settled_.insert(object);
}

Recorder::Place Recorder::place_of(const void* address, const Storage& storage) {
  const auto* const at = static_cast<const char*>(address);
  // By the storage itself first: a view of no elements may begin behind its block.
  const auto* const begin_of_storage = static_cast<const char*>(storage.data());
  const auto own = living_.find(begin_of_storage);
  if (own != living_.end() && own->second.storage == &storage) {
    return {own->second.block, at - begin_of_storage};
  }
  if (auto next = living_.upper_bound(at); next != living_.begin()) {
    const auto& [begin, living] = *std::prev(next);
    const Block& block = recording_.blocks[static_cast<std::size_t>(living.block)];
    if (at < begin + std::max(block.bytes, std::size_t{1})) return {living.block, at - begin};
  }
  const auto [place, is_new] =
      older_.emplace(&storage, static_cast<std::int64_t>(recording_.blocks.size()));
  if (is_new) {
    recording_.blocks.push_back(
        {.bytes = storage.bytes(), .storage = held(storage), .is_older = true});
  }
  return {place->second, at - static_cast<const char*>(storage.data())};
}

Operand Recorder::operand_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const TensorImpl& impl = *tensor.impl();
  if (impl.storage->device().type != DeviceType::kCPU) {
    refuse(fmt::format("a tensor is on {}", impl.storage->device().str()));
    return {};
  }
  const Place place = place_of(impl.data(), *impl.storage);
  return {.block = place.block,
          .first = place.bytes,
          .sizes = impl.shape,
          .strides = impl.strides,
          .dtype = impl.dtype,
          .numel = impl.numel};
}

void Recorder::add(std::unique_ptr<Step> step) {
  const auto number = static_cast<std::int64_t>(recording_.steps.size());
  const std::span<const Operand> operands = std::as_const(*step).operands();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].block == Operand::kUndefined) continue;
    Block& block = recording_.blocks[static_cast<std::size_t>(operands[i].block)];
    const bool is_constant = block.storage && !block.is_older;
    if (is_constant && step->changes(i)) {
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
