// Generator: a seeded stream of random numbers, on the CPU the same stream as PyTorch's.
//
// It holds an mt19937 and one cached normal sample, and a position in the Philox stream of the same
// seed (philox.h), from which tensors on CUDA devices draw. It is owned by the code that made it,
// and is neither copied nor moved (use clone() for a copy). default_generator() lives as long as
// the process; calls without a generator draw from it.
//
// Thread-safety: any member from any thread; every call, also one that fills a whole buffer, takes
// the generator's mutex once, so that two threads never interleave inside a fill. Their order is
// not defined: a reproducible program draws from one thread, or gives each thread its own
// generator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/base/mutex.h"
#include "core/random/mt19937.h"
#include "core/random/philox.h"

namespace dl {

class Generator {
 public:
  // The seed of a new torch.Generator(). PyTorch's default generator, unlike ours, starts with a
  // random seed.
  static constexpr std::uint64_t kDefaultSeed = 67280421310721;
  // Bytes of state(): the layout of torch.Generator.get_state().
  static constexpr std::size_t kStateBytes = 5056;

  explicit Generator(std::uint64_t seed = kDefaultSeed) noexcept : seed_(seed), engine_(seed) {}
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Restarts both streams and forgets the cached normal sample.
  void manual_seed(std::uint64_t seed) noexcept;
  // Seeds with a number from the operating system and returns it.
  std::uint64_t seed();
  // The seed the stream started from.
  std::uint64_t initial_seed() const noexcept;

  // One or two outputs of the engine; the first of two is the high half.
  std::uint32_t random() noexcept;
  std::uint64_t random64() noexcept;

  // Reserves the next `words` words of the Philox stream, rounded up to a multiple of four, and
  // returns their position.
  random::PhiloxSeed philox(std::uint64_t words) noexcept;
  // Gets and sets the number of Philox words reserved so far. It is not part of state(), whose
  // layout is PyTorch's. Throws kInvalidArgument unless the offset is a multiple of four.
  std::uint64_t philox_offset() const noexcept;
  void set_philox_offset(std::uint64_t words);

  // Gets and sets the CPU stream's exact position: kStateBytes little-endian bytes, which
  // torch.Generator.set_state() accepts as well. set_state() throws kParse if the bytes are not
  // such a state.
  std::vector<std::byte> state() const;
  void set_state(std::span<const std::byte> bytes);
  std::unique_ptr<Generator> clone() const;

  // The locked stream, for a function that draws many numbers under one lock.
  class Locked {
   public:
    explicit Locked(Generator& generator) DL_NO_THREAD_SAFETY_ANALYSIS;
    std::uint32_t random() noexcept { return engine_(); }
    std::uint64_t random64() noexcept {
      const std::uint64_t high = engine_();
      return high << 32 | engine_();
    }
    // The second sample of the last Box-Muller pair, if it was not used yet.
    std::optional<double>& cached_normal() noexcept { return cached_; }

   private:
    Lock lock_;
    random::Mt19937& engine_;
    std::optional<double>& cached_;
  };

 private:
  mutable Mutex mutex_;
  std::uint64_t seed_ DL_GUARDED_BY(mutex_);
  random::Mt19937 engine_ DL_GUARDED_BY(mutex_);
  std::optional<double> cached_normal_ DL_GUARDED_BY(mutex_);
  std::uint64_t philox_offset_ DL_GUARDED_BY(mutex_) = 0;
};

Generator& default_generator() noexcept;  // NOLINT(readability-redundant-declaration)
// Seeds default_generator(): the same seed gives the numbers, weights and shuffles that
// torch.manual_seed gives on the CPU.
void manual_seed(std::uint64_t seed) noexcept;

}  // namespace dl
