// A dataset whose samples say which they are.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "nn/data/dataset.h"

namespace dl::data {

// Sample i is {i, i, i} and i * 10.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const noexcept override { return size_; }
  const std::vector<Field>& fields() const noexcept override { return fields_; }
  void read(std::int64_t index, std::span<const std::span<std::byte>> out) const override {
    before(index);
    auto* const triple = reinterpret_cast<float*>(out[0].data());
    for (int i = 0; i < 3; ++i) triple[i] = static_cast<float>(index);
    const std::int64_t ten = index * 10;
    std::memcpy(out[1].data(), &ten, sizeof(ten));
  }

 protected:
  virtual void before(std::int64_t) const {}

 private:
  std::int64_t size_;
  std::vector<Field> fields_ = {{"input", DType::kF32, {3}}, {"target", DType::kI64, {}}};
};

}  // namespace dl::data
