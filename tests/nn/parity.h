// Comparison of a differentiable function with arrays that make_arrays.py wrote by
// with_gradients().
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/tensor/factories.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl::parity {

// A case's input tensors, in one dtype.
class Inputs {
 public:
  Inputs(const Arrays& arrays, std::string case_name, DType dtype)
      : arrays_(arrays), case_(std::move(case_name)), dtype_(dtype) {}

  // The tensor CASE.key: a leaf that requires gradients, if PyTorch's has one; undefined if there
  // is no such array.
  Tensor operator[](const std::string& key) const {
    for (const auto& [name, tensor] : made_) {
      if (name == key) return tensor;
    }
    const std::string name = case_ + "." + key;
    Tensor tensor;
    if (arrays_.has(name)) {
      Shape shape;
      for (const std::size_t size : arrays_.shape(name)) {
        shape.push_back(static_cast<std::int64_t>(size));
      }
      if (arrays_.dtype(name) == "I64") {
        tensor = dl::tensor(arrays_.get<std::int64_t>(name)).view(shape);
      } else {
        tensor =
            dl::tensor(arrays_.get<double>(name), {.dtype = DType::kF64}).view(shape).to(dtype_);
        tensor = tensor.clone();
        if (key.find("weight") == key.npos) tensor.requires_grad_();
      }
    }
    made_.emplace_back(key, tensor);
    return tensor;
  }
  const std::vector<std::pair<std::string, Tensor>>& made() const { return made_; }

 private:
  const Arrays& arrays_;
  std::string case_;
  DType dtype_;
  mutable std::vector<std::pair<std::string, Tensor>> made_;
};

struct AgreementOptions {
  bool with_half = true;  // float16 and bfloat16, too
  double float32 = 1e-6;  // the largest error, as a share of the largest magnitude
  double roundings = 4;   // to 16 bits, each half a unit of the largest magnitude
};

inline void expect_near_share(const Tensor& got, const std::vector<double>& wanted, double share,
                              const std::string& what) {
  const std::vector<double> numbers = values<double>(got);
  ASSERT_EQ(numbers.size(), wanted.size()) << what;
  double largest = 0;
  for (const double x : wanted) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!std::isfinite(wanted[i])) {
      const bool same = std::isnan(wanted[i]) ? std::isnan(numbers[i]) : numbers[i] == wanted[i];
      ASSERT_TRUE(same) << what << " [" << i << "] is " << numbers[i] << ", wanted " << wanted[i];
      continue;
    }
    ASSERT_NEAR(numbers[i], wanted[i], share * largest + 1e-300) << what << " [" << i << "]";
  }
}

// f of the tensors CASE.* against AT.y, and the gradients for AT.g against AT.d_*, in every dtype.
inline void expect_agreement(const Arrays& arrays, const std::string& case_name,
                             const std::string& at, const std::function<Tensor(const Inputs&)>& f,
                             AgreementOptions options = {}) {
  struct Kind {
    DType dtype;
    double share;
  };
  for (const Kind kind : {Kind{DType::kF64, 1e-12}, Kind{DType::kF32, options.float32},
                          Kind{DType::kBF16, options.roundings * 0x1p-9},
                          Kind{DType::kF16, options.roundings * 0x1p-12}}) {
    if (size_of(kind.dtype) == 2 && !options.with_half) continue;
    const std::string what = at + " in " + std::string(name_of(kind.dtype));
    const Inputs inputs(arrays, case_name, kind.dtype);
    const Tensor y = f(inputs);
    EXPECT_EQ(y.dtype(), kind.dtype) << what;
    ASSERT_EQ(y.dim(), static_cast<std::int64_t>(arrays.shape(at + ".y").size())) << what;
    expect_near_share(y.detach(), arrays.get<double>(at + ".y"), kind.share, what);
    y.backward(dl::tensor(arrays.get<double>(at + ".g"), {.dtype = DType::kF64})
                   .view(y.sizes())
                   .to(kind.dtype));
    for (const auto& [key, tensor] : inputs.made()) {
      const std::string name = at + ".d_" + key;
      if (!arrays.has(name)) continue;
      const Tensor grad = tensor.grad();
      ASSERT_TRUE(grad.defined()) << what << ": no gradient of " << key;
      EXPECT_EQ(grad.dtype(), kind.dtype) << what;
      expect_near_share(grad, arrays.get<double>(name), kind.share, what + ", d_" + key);
    }
  }
}

}  // namespace dl::parity
