// Linear: y = x W^T + b.
#pragma once

#include <cstdint>
#include <string>

#include "core/args/linear_args.h"
#include "nn/module/module.h"

namespace dl::nn {

struct LinearOptions {
  bool bias = true;
  DType dtype = DType::kF32;
};

class Linear : public Module {
 public:
  // Throws kInvalidArgument for negative sizes.
  Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options = {});

  // input [..., in_features] -> [..., out_features]
  Tensor forward(const Tensor& input) override;
  // Accepts every activation after it; core/ops/linear/linear.h says when it is really fused.
  bool can_fuse(const Fusion& fusion) const override;
  Tensor forward_fused(const Tensor& input, const Fusion& fusion) override;
  // Draws new initial values, as PyTorch draws them.
  void reset_parameters();
  std::string extra_repr() const override;

  std::int64_t in_features;
  std::int64_t out_features;
  Tensor& weight;  // [out_features, in_features]
  Tensor& bias;    // [out_features], undefined with bias = false
};

struct BilinearOptions {
  bool bias = true;
  DType dtype = DType::kF32;
};

// y[k] = a^T weight[k] b + bias[k].
class Bilinear : public Module {
 public:
  // Throws kInvalidArgument for sizes below 1.
  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, BilinearOptions options = {});

  using Module::forward;
  // a [..., in1], b [..., in2] -> [..., out]
  Tensor forward(const Tensor& a, const Tensor& b) const;
  Tensor operator()(const Tensor& a, const Tensor& b) const { return forward(a, b); }
  // Draws new initial values, as PyTorch draws them.
  void reset_parameters();
  std::string extra_repr() const override;

  std::int64_t in1_features;
  std::int64_t in2_features;
  std::int64_t out_features;
  Tensor& weight;  // [out, in1, in2]
  Tensor& bias;    // [out], undefined with bias = false
};

}  // namespace dl::nn
