// Activations with arguments, and softmax. core/ops/elementwise/activation.h and
// core/ops/softmax/softmax.h have their formulas.
#pragma once

#include <cstdint>
#include <string>

#include "nn/module/module.h"

namespace dl::nn {

struct LeakyReLUOptions {
  double negative_slope = 0.01;
  bool inplace = false;  // overwrite the input, which must not be a leaf that requires gradients
};
class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(LeakyReLUOptions given = {}) : options(given) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  LeakyReLUOptions options;
};

struct ELUOptions {
  double alpha = 1;
  bool inplace = false;
};
class ELU : public Module {
 public:
  explicit ELU(ELUOptions given = {}) : options(given) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  ELUOptions options;
};

struct CELUOptions {
  double alpha = 1;  // not 0
  bool inplace = false;
};
class CELU : public Module {
 public:
  explicit CELU(CELUOptions given = {});
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  CELUOptions options;
};

// Throw kInvalidArgument for a lambd below 0.
class Softshrink : public Module {
 public:
  explicit Softshrink(double given = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  double lambd;
};
class Hardshrink : public Module {
 public:
  explicit Hardshrink(double given = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  double lambd;
};

struct ThresholdOptions {
  bool inplace = false;
};
// x if x > `threshold`, else `value`.
class Threshold : public Module {
 public:
  Threshold(double from, double otherwise, ThresholdOptions given = {})
      : threshold(from), value(otherwise), options(given) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  double threshold;
  double value;
  ThresholdOptions options;
};

struct PReLUOptions {
  std::int64_t num_parameters = 1;  // or the number of channels
  double init = 0.25;
  DType dtype = DType::kF32;
};
// LeakyReLU with learned slopes (He et al. 2015).
class PReLU : public Module {
 public:
  // Throws kInvalidArgument if num_parameters < 1.
  explicit PReLU(PReLUOptions given = {});
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  PReLUOptions options;
  Tensor& weight;  // [num_parameters]
};

// The first half of `dim` times the sigmoid of the second half.
class GLU : public Module {
 public:
  explicit GLU(std::int64_t along = -1) : dim(along) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::int64_t dim;
};

struct SoftplusOptions {
  double beta = 1;
  double threshold = 20;  // returns x if beta x > threshold
};
class Softplus : public Module {
 public:
  explicit Softplus(SoftplusOptions given = {}) : options(given) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  SoftplusOptions options;
};

struct HardtanhOptions {
  double min_val = -1;
  double max_val = 1;
  bool inplace = false;
};
class Hardtanh : public Module {
 public:
  // Throws kInvalidArgument unless min_val < max_val.
  explicit Hardtanh(HardtanhOptions given = {});
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  HardtanhOptions options;
};

// Softmax along one dimension, which has no default, unlike PyTorch's: nn::Softmax(-1).
class Softmax : public Module {
 public:
  explicit Softmax(std::int64_t along) : dim(along) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::int64_t dim;
};

// softmax(-x)
class Softmin : public Module {
 public:
  explicit Softmin(std::int64_t along) : dim(along) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::int64_t dim;
};

class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(std::int64_t along) : dim(along) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::int64_t dim;
};

}  // namespace dl::nn
