// What tests of nn/ share.
#pragma once

#include <openssl/sha.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/factories.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl::nn {

// A text that make_arrays.py wrote as bytes.
inline std::string text_of(const parity::Arrays& arrays, const std::string& name) {
  const auto bytes = arrays.get<std::uint8_t>(name);
  return {bytes.begin(), bytes.end()};
}

// A float32 array of PyTorch's as a tensor.
inline Tensor tensor_of(const parity::Arrays& arrays, const std::string& name) {
  Shape shape;
  for (const std::size_t size : arrays.shape(name)) {
    shape.push_back(static_cast<std::int64_t>(size));
  }
  const Tensor result = empty(shape);
  std::ranges::copy(arrays.get<float>(name), result.data<float>());
  return result;
}

// Of the elements in row-major order.
inline std::vector<std::uint8_t> sha256_of(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  std::vector<std::uint8_t> digest(SHA256_DIGEST_LENGTH);
  SHA256(static_cast<const unsigned char*>(dense.data_ptr()), dense.nbytes(), digest.data());
  return digest;
}

}  // namespace dl::nn
