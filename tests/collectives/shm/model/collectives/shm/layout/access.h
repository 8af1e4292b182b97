// In place of the file of the same name: words and copies of the model (explorer.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dl::collectives::shm {

namespace model {
std::uint64_t load(const void* word, std::memory_order order) noexcept;
void store(const void* word, std::uint64_t value, std::memory_order order) noexcept;
std::uint64_t add(const void* word, std::uint64_t value, std::memory_order order) noexcept;
void copy(void* to, const void* from, std::size_t bytes) noexcept;
}  // namespace model

// Its value is in the model; only its address counts.
template <typename T>
class Atomic {
 public:
  static constexpr bool is_always_lock_free = true;

  T load(std::memory_order order) const noexcept {
    return static_cast<T>(model::load(this, order));
  }
  void store(T value, std::memory_order order) noexcept {
    model::store(this, static_cast<std::uint64_t>(value), order);
  }
  T fetch_add(T value, std::memory_order order) noexcept {
    return static_cast<T>(model::add(this, static_cast<std::uint64_t>(value), order));
  }

 private:
  [[maybe_unused]] T place_;
};

// Only a hint.
inline void fetch_to_write(void*) noexcept {}

inline void copy_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes > 0 && to != from) model::copy(to, from, bytes);
}

}  // namespace dl::collectives::shm
