// Normalisation: LayerNorm, RMSNorm, GroupNorm, BatchNorm1d, BatchNorm2d. core/ops/norm/norm.h has
// their formulas. Names in the state_dict are PyTorch's.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/ops/norm/sync_batch_norm.h"
#include "core/tensor/layout/shape.h"
#include "nn/module/module.h"

namespace dl::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  // has a weight, initially 1, and a bias, initially 0
  bool bias = true;
  DType dtype = DType::kF32;
};

// Over the last dimensions: nn::LayerNorm(512), nn::LayerNorm({28, 28}).
class LayerNorm : public Module {
 public:
  explicit LayerNorm(Shape normalized_shape, LayerNormOptions options = {});
  explicit LayerNorm(std::int64_t width, LayerNormOptions given = {})
      : LayerNorm(Shape{width}, given) {}
  // Makes {512} a list of one size, not a number.
  explicit LayerNorm(std::initializer_list<std::int64_t> shape, LayerNormOptions given = {})
      : LayerNorm(Shape(shape), given) {}

  Tensor forward(const Tensor& input) override;
  void reset_parameters();
  std::string extra_repr() const override;

  Shape normalized_shape;
  LayerNormOptions options;
  Tensor& weight;  // [normalized_shape...]; undefined without elementwise_affine
  Tensor& bias;
};

struct RMSNormOptions {
  // Default: the machine epsilon of the input's dtype, or of float32 for float16 and bfloat16,
  // which are computed in float32.
  std::optional<double> eps{};
  bool elementwise_affine = true;
  DType dtype = DType::kF32;
};

class RMSNorm : public Module {
 public:
  explicit RMSNorm(Shape normalized_shape, RMSNormOptions options = {});
  explicit RMSNorm(std::int64_t width, RMSNormOptions given = {}) : RMSNorm(Shape{width}, given) {}
  explicit RMSNorm(std::initializer_list<std::int64_t> shape, RMSNormOptions given = {})
      : RMSNorm(Shape(shape), given) {}

  Tensor forward(const Tensor& input) override;
  void reset_parameters();
  std::string extra_repr() const override;

  Shape normalized_shape;
  RMSNormOptions options;
  Tensor& weight;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;  // has a weight and a bias, one number for each channel
  bool bias = true;
  DType dtype = DType::kF32;
};

class GroupNorm : public Module {
 public:
  // Throws kInvalidArgument unless num_groups divides num_channels.
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options = {});

  // input [N, num_channels, d...]
  Tensor forward(const Tensor& input) override;
  void reset_parameters();
  std::string extra_repr() const override;

  std::int64_t num_groups;
  std::int64_t num_channels;
  GroupNormOptions options;
  Tensor& weight;
  Tensor& bias;
};

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // nullopt: running statistics are means over all batches
  bool affine = true;
  bool bias = true;
  bool track_running_stats = true;  // false: always uses the input's statistics, also after eval()
  DType dtype = DType::kF32;
};

// The base of BatchNorm1d and BatchNorm2d. In training, a batch is normalised by its own statistics
// and updates the running statistics; after eval() the running statistics are used.
class BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& input) override;
  // With a ReLU behind it, and a residual before that: core/ops/norm/norm.h, batch_norm_relu().
  bool can_fuse(const Fusion& fusion) const override;
  Tensor forward_fused(const Tensor& input, const Fusion& fusion) override;
  void reset_parameters();
  void reset_running_stats();
  // Makes training use the statistics of the samples of all these ranks
  // (nn/parallel/sync_batch_norm.h).
  void share_batch(const Ref<BatchRanks>& ranks);
  std::string type_name() const override;  // "SyncBatchNorm" after share_batch()
  std::string extra_repr() const override;

  std::int64_t num_features;
  BatchNormOptions options;
  Tensor& weight;
  Tensor& bias;
  Tensor& running_mean;  // these three are undefined without track_running_stats
  Tensor& running_var;
  Tensor& num_batches_tracked;  // int64

 protected:
  BatchNorm(std::int64_t num_features, BatchNormOptions options);
  // Throws kShape for an input of the wrong number of dimensions.
  virtual void check_input(const Tensor& input) const = 0;

 private:
  bool is_shared() const noexcept { return ranks_ && is_training(); }
  // Checks the input, and counts the batch.
  dl::BatchNormOptions begin(const Tensor& input);

  Ref<BatchRanks> ranks_;
};

// All BatchNorms in a module, itself included, in the order of named_modules().
std::vector<BatchNorm*> batch_norms(Module& module);

// input [N, C] or [N, C, L]
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(std::int64_t features, BatchNormOptions given = {})
      : BatchNorm(features, given) {}

 protected:
  void check_input(const Tensor& input) const override;
};

// input [N, C, H, W]
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(std::int64_t features, BatchNormOptions given = {})
      : BatchNorm(features, given) {}

 protected:
  void check_input(const Tensor& input) const override;
};

}  // namespace dl::nn
