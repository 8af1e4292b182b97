// Dims: a short list of sizes, strides or dimension numbers, held inline up to six entries.
//
// A value type. Shape and Strides are aliases of it.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

namespace dl {

class Dims {
 public:
  static constexpr std::size_t kInline = 6;

  Dims() noexcept = default;
  Dims(std::initializer_list<std::int64_t> values)  // NOLINT(google-explicit-constructor)
      : Dims(std::span<const std::int64_t>(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values)
      : size_(static_cast<std::uint32_t>(values.size())) {
    if (values.size() <= kInline) {
      for (std::size_t i = 0; i < values.size(); ++i) inline_[i] = values[i];
    } else {
      heap_ = new std::int64_t[values.size()];
      heap_capacity_ = size_;
      std::copy(values.begin(), values.end(), heap_);
    }
  }
  Dims(std::size_t size, std::int64_t value) {
    resize(size);
    std::fill(begin(), end(), value);
  }
  Dims(const Dims& other) : size_(0) { *this = other; }
  Dims(Dims&& other) noexcept { swap(other); }
  Dims& operator=(const Dims& other) {
    if (this == &other) return *this;
    if (!other.on_heap() && !on_heap()) {
      std::memcpy(inline_, other.inline_, sizeof(inline_));
      size_ = other.size_;
      return *this;
    }
    resize(other.size());
    std::copy(other.begin(), other.end(), data());
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Dims() {
    if (on_heap()) delete[] heap_;
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::int64_t* data() noexcept { return on_heap() ? heap_ : inline_; }
  const std::int64_t* data() const noexcept { return on_heap() ? heap_ : inline_; }
  std::int64_t* begin() noexcept { return data(); }
  std::int64_t* end() noexcept { return data() + size_; }
  const std::int64_t* begin() const noexcept { return data(); }
  const std::int64_t* end() const noexcept { return data() + size_; }
  std::int64_t& operator[](std::size_t i) noexcept { return data()[i]; }
  std::int64_t operator[](std::size_t i) const noexcept { return data()[i]; }
  std::int64_t back() const noexcept { return data()[size_ - 1]; }
  operator std::span<const std::int64_t>() const noexcept {  // NOLINT(google-explicit-constructor)
    return {data(), size_};
  }

  // New entries are zero.
  void resize(std::size_t size) {
    if (size > kInline && size > capacity()) {
      auto* const grown = new std::int64_t[size]();
      std::copy(begin(), end(), grown);
      if (on_heap()) delete[] heap_;
      heap_ = grown;
      heap_capacity_ = static_cast<std::uint32_t>(size);
    } else if (size > size_) {
      std::fill(data() + size_, data() + size, 0);
    }
    size_ = static_cast<std::uint32_t>(size);
  }
  void push_back(std::int64_t value) {
    resize(size_ + std::size_t{1});
    data()[size_ - 1] = value;
  }
  void pop_back() noexcept { --size_; }
  void insert(std::size_t at, std::int64_t value) {
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(std::size_t at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    pop_back();
  }

  // "[2, 3]"
  std::string str() const {
    std::string text = "[";
    for (std::size_t i = 0; i < size_; ++i) {
      if (i != 0) text += ", ";
      text += std::to_string(data()[i]);
    }
    return text + "]";
  }

  friend bool operator==(const Dims& a, const Dims& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  bool on_heap() const noexcept { return heap_capacity_ != 0; }
  std::size_t capacity() const noexcept { return on_heap() ? heap_capacity_ : kInline; }
  void swap(Dims& other) noexcept {
    std::int64_t held[kInline];
    std::memcpy(held, inline_, sizeof(held));
    std::memcpy(inline_, other.inline_, sizeof(held));
    std::memcpy(other.inline_, held, sizeof(held));
    std::swap(size_, other.size_);
    std::swap(heap_capacity_, other.heap_capacity_);
  }

  union {
    std::int64_t inline_[kInline] = {};
    std::int64_t* heap_;
  };
  std::uint32_t size_ = 0;
  std::uint32_t heap_capacity_ = 0;
};

using Shape = Dims;
using Strides = Dims;

// A size passed as a separate argument, as in zeros(2, 3) and x.view(2, -1).
template <typename T>
concept SizeNumber = std::integral<T> && !std::same_as<T, bool>;
namespace detail {
template <typename... Sizes>
Dims listed(Sizes... sizes) {
  return Dims{static_cast<std::int64_t>(sizes)...};
}
}  // namespace detail

}  // namespace dl
