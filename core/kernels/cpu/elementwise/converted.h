// Runs of a tensor's elements in a kernel's compute type: in place if the tensor has that dtype,
// else converted through a buffer of the caller.
#pragma once

#include <vector>

#include "core/kernels/cpu/elementwise/compute_type.h"

namespace dl::kernels::cpu {

// For reading. at() returns null for an undefined tensor.
template <typename T>
class ConvertedInput {
 public:
  explicit ConvertedInput(const Tensor& tensor) {
    if (!tensor.defined()) return;
    data_ = static_cast<const char*>(tensor.data_ptr());
    size_ = static_cast<std::int64_t>(size_of(tensor.dtype()));
    if (tensor.dtype() != kDTypeOf<T>) load_ = load_as(tensor.dtype(), kDTypeOf<T>);
  }
  bool is_converted() const noexcept { return load_ != nullptr; }
  // Elements begin, begin + 1, ...; `buffer` has space for `count`, or may be null if nothing is
  // converted.
  const T* at(std::int64_t begin, std::int64_t count, T* buffer) const {
    if (data_ == nullptr) return nullptr;
    const char* const from = data_ + begin * size_;
    if (load_ == nullptr) return reinterpret_cast<const T*>(from);
    load_(from, 1, buffer, count);
    return buffer;
  }

 private:
  const char* data_ = nullptr;
  std::int64_t size_ = 0;
  Load load_ = nullptr;
};

// For writing: write results to at(), then call done() to store them.
template <typename T>
class ConvertedOutput {
 public:
  explicit ConvertedOutput(const Tensor& tensor)
      : data_(static_cast<char*>(tensor.data_ptr())),
        size_(static_cast<std::int64_t>(size_of(tensor.dtype()))),
        store_(tensor.dtype() == kDTypeOf<T> ? nullptr : store_from(kDTypeOf<T>, tensor.dtype())) {}
  bool is_converted() const noexcept { return store_ != nullptr; }
  T* at(std::int64_t begin, T* buffer) const {
    return store_ == nullptr ? reinterpret_cast<T*>(data_ + begin * size_) : buffer;
  }
  void done(std::int64_t begin, std::int64_t count, const T* buffer) const {
    if (store_ != nullptr) store_(buffer, data_ + begin * size_, 1, count);
  }

 private:
  char* data_;
  std::int64_t size_;
  Store store_;
};

// A small tensor in the compute type: the tensor's own memory, or a copy in this object.
template <typename T>
class ConvertedTensor {
 public:
  explicit ConvertedTensor(const Tensor& tensor) {
    const ConvertedInput<T> in(tensor);
    if (in.is_converted()) memory_.resize(static_cast<std::size_t>(tensor.numel()));
    data_ = in.at(0, tensor.defined() ? tensor.numel() : 0, memory_.data());
  }
  const T* data() const noexcept { return data_; }
  T get(std::int64_t i, T otherwise) const noexcept {
    return data_ == nullptr ? otherwise : data_[i];
  }

 private:
  std::vector<T> memory_;
  const T* data_ = nullptr;
};

}  // namespace dl::kernels::cpu
