// Descriptors of cuDNN's graph API on the host device.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <istream>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dl::host_device::dnn {

struct Descriptor {
  struct Attribute {
    cudnnBackendAttributeType_t type;
    std::int64_t count;
    std::vector<char> bytes;
    std::vector<std::shared_ptr<Descriptor>> descriptors;
  };

  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;

  template <typename T>
  T get(cudnnBackendAttributeName_t name, T missing) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return missing;
    T value;
    std::memcpy(&value, found->second.bytes.data(), sizeof value);
    return value;
  }
  std::array<std::int64_t, 4> four(cudnnBackendAttributeName_t name) const {
    std::array<std::int64_t, 4> values{};
    const auto found = attributes.find(name);
    if (found != attributes.end() && found->second.count == 4) {
      std::memcpy(values.data(), found->second.bytes.data(), sizeof values);
    }
    return values;
  }
  std::shared_ptr<Descriptor> child(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? nullptr : found->second.descriptors.front();
  }
  std::vector<std::shared_ptr<Descriptor>> children(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? std::vector<std::shared_ptr<Descriptor>>()
                                     : found->second.descriptors;
  }
};
using Shared = std::shared_ptr<Descriptor>;

// A descriptor with all that it has, as text: numbers with blanks between.
void write_text(const Descriptor& d, std::string& text);
// Null if that is not what the text has.
Shared read_text(std::istream& text);

struct Tensor {
  explicit Tensor(const Descriptor& d)
      : number(d.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0)),
        type(d.get(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)),
        sizes(d.four(CUDNN_ATTR_TENSOR_DIMENSIONS)),
        steps(d.four(CUDNN_ATTR_TENSOR_STRIDES)),
        is_virtual(d.get(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false)),
        by_value(d.get(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)) {}

  std::int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  // For each element in row-major order: f(its position in memory).
  template <typename F>
  void each(const F& f) const {
    for (std::int64_t a = 0; a < sizes[0]; ++a) {
      for (std::int64_t b = 0; b < sizes[1]; ++b) {
        for (std::int64_t c = 0; c < sizes[2]; ++c) {
          for (std::int64_t d = 0; d < sizes[3]; ++d) {
            f(a * steps[0] + b * steps[1] + c * steps[2] + d * steps[3]);
          }
        }
      }
    }
  }

  std::int64_t number;
  cudnnDataType_t type;
  std::array<std::int64_t, 4> sizes;
  std::array<std::int64_t, 4> steps;
  bool is_virtual;
  bool by_value;
};

}  // namespace dl::host_device::dnn
