// LruCache: a map of bounded size that evicts the least recently used entry. It caches the plans of
// oneDNN, cuBLASLt and cuDNN for each shape. Not thread-safe.
//
// Keys are plain data without padding, hashed and compared as values; a lookup takes about 10 ns; a
// oneDNN primitive descriptor takes 2 us, and a heuristic of cuDNN tens of microseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace dl::kernels {

template <typename Key, typename Value>
class LruCache {
  static_assert(std::has_unique_object_representations_v<Key>, "padding would be hashed");
  static_assert(sizeof(Key) % sizeof(std::uint64_t) == 0);

 public:
  explicit LruCache(std::size_t capacity) : capacity_(capacity) {}

  // The key's value, made by make() if there is none. The reference is valid until the next call.
  template <typename Make>
  Value& get(const Key& key, const Make& make) {
    if (const auto found = index_.find(key); found != index_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return *order_.front().second;
    }
    std::unique_ptr<Value> value = make();
    if (order_.size() == capacity_) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    order_.emplace_front(key, std::move(value));
    index_.emplace(key, order_.begin());
    return *order_.front().second;
  }

  std::size_t size() const noexcept { return order_.size(); }

 private:
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept {
      std::uint64_t words[sizeof(Key) / sizeof(std::uint64_t)];
      std::memcpy(words, &key, sizeof(Key));
      std::uint64_t hash = 0;
      for (const std::uint64_t word : words) {
        hash = (hash ^ word) * 0x9E3779B97F4A7C15U;  // Fibonacci hashing (Knuth, TAOCP 3, 6.4)
        hash ^= hash >> 32;
      }
      return hash;
    }
  };
  using Order = std::list<std::pair<Key, std::unique_ptr<Value>>>;

  std::size_t capacity_;
  Order order_;  // most recently used first
  std::unordered_map<Key, typename Order::iterator, Hash> index_;
};

}  // namespace dl::kernels
