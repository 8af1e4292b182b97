#include "core/random/generator.h"

#include <array>
#include <bit>
#include <cstring>
#include <random>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/memory/storage.h"

namespace dl {
namespace {

static_assert(std::endian::native == std::endian::little,
              "states are written as they lie in memory");

// PyTorch's CPUGeneratorImplState; the padding is explicit.
struct State {
  std::uint64_t seed;
  std::int32_t left;  // outputs until the words are renewed, plus one
  std::int32_t seeded;
  std::uint64_t next;
  std::array<std::uint64_t, random::Mt19937::kWords> words;
  double normal_x;
  double normal_y;  // the cached sample
  double normal_rho;
  std::int32_t normal_is_valid;
  std::int32_t padding;
  float float_normal;
  std::uint8_t float_normal_is_valid;
  std::array<std::uint8_t, 3> tail;
};
static_assert(sizeof(State) == Generator::kStateBytes);
static_assert(std::is_trivially_copyable_v<State>);

}  // namespace

void Generator::manual_seed(std::uint64_t seed) noexcept {
  const Lock lock(mutex_);
  seed_ = seed;
  detail::not_repeatable("a generator is seeded", RepeatedBy::kNothing);
  engine_ = random::Mt19937(seed);
  cached_normal_.reset();
  philox_offset_ = 0;
}

std::uint64_t Generator::seed() {
  std::random_device device;
  const std::uint64_t seed = std::uint64_t{device()} << 32 | device();
  manual_seed(seed);
  return seed;
}

std::uint64_t Generator::initial_seed() const noexcept {
  const Lock lock(mutex_);
  return seed_;
}

Generator::Locked::Locked(Generator& generator) DL_NO_THREAD_SAFETY_ANALYSIS
    : lock_(generator.mutex_),
      engine_(generator.engine_),
      cached_(generator.cached_normal_) {
  detail::not_repeatable("random numbers are drawn", RepeatedBy::kNothing);
}

std::uint32_t Generator::random() noexcept {
  return Locked(*this).random();
}

std::uint64_t Generator::random64() noexcept {
  return Locked(*this).random64();
}

random::PhiloxSeed Generator::philox(std::uint64_t words) noexcept {
  detail::not_repeatable("random numbers are drawn", RepeatedBy::kNothing);
  const Lock lock(mutex_);
  const random::PhiloxSeed taken{seed_, philox_offset_};
  philox_offset_ += (words + 3) / 4 * 4;
  return taken;
}

std::uint64_t Generator::philox_offset() const noexcept {
  const Lock lock(mutex_);
  return philox_offset_;
}

void Generator::set_philox_offset(std::uint64_t words) {
  DL_CHECK(words % 4 == 0, kInvalidArgument,
           "Generator::set_philox_offset: got {}, wanted a multiple of 4", words);
  detail::not_repeatable("a generator's state is set", RepeatedBy::kNothing);
  const Lock lock(mutex_);
  philox_offset_ = words;
}

std::vector<std::byte> Generator::state() const {
  detail::not_repeatable("a generator's state is read", RepeatedBy::kNothing);
  State state{};
  {
    const Lock lock(mutex_);
    const std::size_t position = engine_.position();
    state.seed = seed_;
    state.left = static_cast<std::int32_t>(random::Mt19937::kWords - position + 1);
    state.seeded = 1;
    state.next = engine_.is_new() ? 0 : position;
    for (std::size_t i = 0; i < state.words.size(); ++i) state.words[i] = engine_.words()[i];
    state.normal_is_valid = cached_normal_.has_value() ? 1 : 0;
    state.normal_y = cached_normal_.value_or(0.0);
  }
  std::vector<std::byte> bytes(kStateBytes);
  std::memcpy(bytes.data(), &state, sizeof(state));
  return bytes;
}

void Generator::set_state(std::span<const std::byte> bytes) {
  detail::not_repeatable("a generator's state is set", RepeatedBy::kNothing);
  DL_CHECK(bytes.size() == kStateBytes, kParse,
           "Generator::set_state: got {} bytes, a state has {}", bytes.size(), kStateBytes);
  State state;
  std::memcpy(&state, bytes.data(), sizeof(state));
  constexpr auto kWords = static_cast<std::int32_t>(random::Mt19937::kWords);
  DL_CHECK(
      state.seeded == 1 && state.left >= 1 && state.left <= kWords &&
          state.next <= random::Mt19937::kWords,
      kParse,
      "Generator::set_state: the bytes are no state of an mt19937 (seeded {}, left {}, next {})",
      state.seeded, state.left, state.next);
  std::array<std::uint32_t, random::Mt19937::kWords> words{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<std::uint32_t>(state.words[i]);
  }
  const Lock lock(mutex_);
  seed_ = state.seed;
  // `left` alone determines the position: PyTorch's `next` is 0 before the first output.
  engine_ = random::Mt19937(words, static_cast<std::size_t>(kWords - state.left + 1),
                            state.left == 1 && state.next == 0);
  cached_normal_.reset();
  if (state.normal_is_valid != 0) cached_normal_ = state.normal_y;
}

std::unique_ptr<Generator> Generator::clone() const {
  auto copy = std::make_unique<Generator>();
  copy->set_state(state());
  copy->set_philox_offset(philox_offset());
  return copy;
}

Generator& default_generator() noexcept {
  static Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) noexcept {
  default_generator().manual_seed(seed);
}

}  // namespace dl
