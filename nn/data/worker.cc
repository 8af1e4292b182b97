#include "nn/data/worker.h"

#include <utility>

#include "core/random/philox.h"

namespace dl::data {
namespace {

thread_local detail::ReadScope* current_scope = nullptr;

// Hashes both numbers with Philox, so that similar seeds or indices give unrelated streams.
std::uint64_t seed_of(std::int64_t epoch_seed, std::int64_t sample) noexcept {
  const auto number = static_cast<std::uint64_t>(sample);
  const auto key = static_cast<std::uint64_t>(epoch_seed);
  const random::PhiloxWords words = random::philox4x32_10(
      {{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 0, 0}},
      static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
  return std::uint64_t{words.word[1]} << 32 | words.word[0];
}

}  // namespace

std::optional<WorkerInfo> worker_info() noexcept {
  return current_scope != nullptr ? current_scope->info() : std::nullopt;
}

Generator& sample_generator() {
  return current_scope != nullptr ? current_scope->draws().generator() : default_generator();
}

Generator& detail::Draws::generator() noexcept {
  if (use_default_) return default_generator();
  if (!seeded_) own_.manual_seed(seed_of(epoch_seed_, sample_));
  seeded_ = true;
  return own_;
}

detail::ReadScope::ReadScope(std::optional<WorkerInfo> info, Draws& draws) noexcept
    : info_(info), draws_(draws), outer_(std::exchange(current_scope, this)) {}

detail::ReadScope::~ReadScope() {
  current_scope = outer_;
}

}  // namespace dl::data
