#include "nn/layers/norm.h"

#include <algorithm>

#include "core/autograd/grad_mode.h"
#include "core/base/option.h"
#include "core/ops/norm/norm.h"
#include "core/tensor/factories.h"
#include "nn/layers/check_input.h"
#include "nn/layers/repr.h"
#include "nn/module/init.h"

namespace dl::nn {
namespace {

Tensor empty_if(bool wanted, const Shape& shape, DType dtype) {
  return wanted ? empty(shape, {.dtype = dtype}) : Tensor();
}

void reset_affine(Tensor& weight, Tensor* bias) {
  if (weight.defined()) init::ones_(weight);
  if (bias != nullptr && bias->defined()) init::zeros_(*bias);
}

void check_last_sizes(std::string_view layer, const Shape& normalized, const Tensor& input) {
  if (!input.defined()) return;
  const Shape& sizes = input.sizes();
  const bool fits = sizes.size() >= normalized.size() &&
                    std::equal(normalized.begin(), normalized.end(),
                               sizes.end() - static_cast<std::ptrdiff_t>(normalized.size()));
  DL_CHECK(fits, kShape,
           "{}: normalized_shape is {}, but the input has shape {}, whose last dimensions differ",
           layer, normalized.str(), sizes.str());
}

std::int64_t positive(std::int64_t value, std::string_view layer, std::string_view what) {
  DL_CHECK(value > 0, kInvalidArgument, "{}: {} is {}, wanted at least 1", layer, what, value);
  return value;
}

Shape checked_shape(Shape shape, std::string_view layer) {
  DL_CHECK(!shape.empty() && std::ranges::all_of(shape, [](auto size) { return size >= 0; }),
           kInvalidArgument,
           "{}: normalized_shape is {}, wanted at least one dimension and no negative size", layer,
           shape.str());
  return shape;
}

}  // namespace

LayerNorm::LayerNorm(Shape shape, LayerNormOptions given)
    : normalized_shape(checked_shape(std::move(shape), "LayerNorm")),
      options(given),
      weight(register_parameter("weight",
                                empty_if(given.elementwise_affine, normalized_shape, given.dtype))),
      bias(register_parameter("bias", empty_if(given.elementwise_affine && given.bias,
                                               normalized_shape, given.dtype))) {
  require_not_negative("LayerNorm", "eps", options.eps);
  reset_parameters();
}

void LayerNorm::reset_parameters() {
  check_not_moved("reset_parameters");
  reset_affine(weight, &bias);
}

Tensor LayerNorm::forward(const Tensor& input) {
  check_not_moved("a call");
  check_last_sizes("LayerNorm", normalized_shape, input);
  return layer_norm(input, normalized_shape, weight, bias, options.eps);
}

std::string LayerNorm::extra_repr() const {
  check_not_moved("extra_repr");
  return fmt::format("{}, eps={}, elementwise_affine={}, bias={}", python_tuple(normalized_shape),
                     python_float(options.eps), python_bool(options.elementwise_affine),
                     python_bool(bias.defined()));
}

RMSNorm::RMSNorm(Shape shape, RMSNormOptions given)
    : normalized_shape(checked_shape(std::move(shape), "RMSNorm")),
      options(given),
      weight(register_parameter(
          "weight", empty_if(given.elementwise_affine, normalized_shape, given.dtype))) {
  require_not_negative("RMSNorm", "eps", options.eps.value_or(0));
  reset_parameters();
}

void RMSNorm::reset_parameters() {
  check_not_moved("reset_parameters");
  reset_affine(weight, nullptr);
}

Tensor RMSNorm::forward(const Tensor& input) {
  check_not_moved("a call");
  check_last_sizes("RMSNorm", normalized_shape, input);
  return rms_norm(input, normalized_shape, weight, options.eps);
}

std::string RMSNorm::extra_repr() const {
  check_not_moved("extra_repr");
  return fmt::format("{}, eps={}, elementwise_affine={}", python_tuple(normalized_shape),
                     options.eps ? python_float(*options.eps) : "None",
                     python_bool(options.elementwise_affine));
}

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, GroupNormOptions given)
    : num_groups(positive(groups, "GroupNorm", "num_groups")),
      num_channels(positive(channels, "GroupNorm", "num_channels")),
      options(given),
      weight(register_parameter("weight", empty_if(given.affine, {channels}, given.dtype))),
      bias(register_parameter("bias",
                              empty_if(given.affine && given.bias, {channels}, given.dtype))) {
  DL_CHECK(channels % groups == 0, kInvalidArgument,
           "GroupNorm: num_channels is {}, wanted a multiple of num_groups = {}", channels, groups);
  require_not_negative("GroupNorm", "eps", options.eps);
  reset_parameters();
}

void GroupNorm::reset_parameters() {
  check_not_moved("reset_parameters");
  reset_affine(weight, &bias);
}

Tensor GroupNorm::forward(const Tensor& input) {
  check_not_moved("a call");
  check_size("GroupNorm", "num_channels", num_channels, input, 1, "channels");
  return group_norm(input, num_groups, weight, bias, options.eps);
}

std::string GroupNorm::extra_repr() const {
  check_not_moved("extra_repr");
  return fmt::format("{}, {}, eps={}, affine={}, bias={}", num_groups, num_channels,
                     python_float(options.eps), python_bool(options.affine),
                     python_bool(bias.defined()));
}

BatchNorm::BatchNorm(std::int64_t features, BatchNormOptions given)
    : num_features(positive(features, "BatchNorm", "num_features")),
      options(given),
      weight(register_parameter("weight", empty_if(given.affine, {features}, given.dtype))),
      bias(register_parameter("bias",
                              empty_if(given.affine && given.bias, {features}, given.dtype))),
      running_mean(register_buffer("running_mean",
                                   empty_if(given.track_running_stats, {features}, given.dtype))),
      running_var(register_buffer("running_var",
                                  empty_if(given.track_running_stats, {features}, given.dtype))),
      num_batches_tracked(register_buffer("num_batches_tracked",
                                          empty_if(given.track_running_stats, {}, DType::kI64))) {
  require_not_negative("BatchNorm", "eps", options.eps);
  require_finite("BatchNorm", "momentum", options.momentum.value_or(0));
  reset_parameters();
}

void BatchNorm::reset_parameters() {
  reset_running_stats();
  reset_affine(weight, &bias);
}

void BatchNorm::reset_running_stats() {
  check_not_moved("reset_running_stats");
  if (!running_mean.defined()) return;
  const NoGradGuard no_grad;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

dl::BatchNormOptions BatchNorm::begin(const Tensor& input) {
  check_not_moved("a call");
  DL_CHECK(input.defined(), kInvalidArgument, "{}: the input is undefined", type_name());
  check_input(input);
  check_size(type_name(), "num_features", num_features, input, 1, "channels");
  const bool tracks = running_mean.defined();
  double momentum = options.momentum.value_or(0);
  if (is_training() && tracks) {
    const NoGradGuard no_grad;
    num_batches_tracked.add_(1);
    if (!options.momentum) momentum = 1 / num_batches_tracked.item<double>();
  }
  return {.training = is_training() || !tracks, .momentum = momentum, .eps = options.eps};
}

Tensor BatchNorm::forward(const Tensor& input) {
  const dl::BatchNormOptions given = begin(input);
  if (is_shared()) {
    return sync_batch_norm(input, running_mean, running_var, weight, bias, ranks_, given);
  }
  return batch_norm(input, running_mean, running_var, weight, bias, given);
}

bool BatchNorm::can_fuse(const Fusion& fusion) const {
  const bool is_known = is_exactly<BatchNorm2d>() || is_exactly<BatchNorm1d>();
  return is_known && fusion.is_relu_after() && !is_shared();
}

Tensor BatchNorm::forward_fused(const Tensor& input, const Fusion& fusion) {
  if (!can_fuse(fusion)) return Module::forward_fused(input, fusion);
  const dl::BatchNormOptions given = begin(input);
  return batch_norm_relu(input, running_mean, running_var, weight, bias, given, fusion.residual);
}

void BatchNorm::share_batch(const Ref<BatchRanks>& ranks) {
  check_not_moved("share_batch");
  ranks_ = ranks;
}

std::string BatchNorm::type_name() const {
  return ranks_ ? "SyncBatchNorm" : Module::type_name();
}

std::string BatchNorm::extra_repr() const {
  check_not_moved("extra_repr");
  return fmt::format("{}, eps={}, momentum={}, affine={}, bias={}, track_running_stats={}",
                     num_features, python_float(options.eps),
                     options.momentum ? python_float(*options.momentum) : "None",
                     python_bool(options.affine), python_bool(bias.defined()),
                     python_bool(options.track_running_stats));
}

std::vector<BatchNorm*> batch_norms(Module& module) {
  std::vector<BatchNorm*> result;
  for (const NamedModule& each : module.named_modules()) {
    if (auto* const norm = dynamic_cast<BatchNorm*>(each.module)) result.push_back(norm);
  }
  return result;
}

void BatchNorm1d::check_input(const Tensor& input) const {
  DL_CHECK(input.dim() == 2 || input.dim() == 3, kShape,
           "BatchNorm1d: the input has shape {}, wanted [N, C] or [N, C, L]", input.sizes().str());
}

void BatchNorm2d::check_input(const Tensor& input) const {
  DL_CHECK(input.dim() == 4, kShape, "BatchNorm2d: the input has shape {}, wanted [N, C, H, W]",
           input.sizes().str());
}

}  // namespace dl::nn
