#include "nn/utils/clip_grad.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/leaf.h"
#include "core/base/error.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/tensor/factories.h"

namespace dl::nn::utils {
namespace {

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters, const char* name) {
  std::vector<Tensor> gradients;
  std::unordered_set<const TensorImpl*> known;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    DL_CHECK(parameters[i].defined(), kInvalidArgument, "{}: parameter {} is undefined", name, i);
    if (const FirstError* const error = grad_error(parameters[i])) error->check();
    Tensor gradient = parameters[i].grad();
    if (!gradient.defined() || !known.insert(gradient.impl()).second) continue;
    DL_CHECK(gradients.empty() || gradient.device() == gradients.front().device(), kInvalidArgument,
             "{}: the gradient of parameter {} is on {}, others on {}", name, i,
             gradient.device().str(), gradients.front().device().str());
    gradients.push_back(std::move(gradient));
  }
  return gradients;
}

// The gradients in dense memory, as kernels take them. Others are copied here and back.
class Dense {
 public:
  explicit Dense(const std::vector<Tensor>& gradients) : gradients_(gradients) {
    dense_.reserve(gradients.size());
    for (const Tensor& gradient : gradients) {
      const bool is_dense = gradient.is_contiguous() || gradient.is_channels_last();
      dense_.push_back(is_dense ? gradient : gradient.clone(MemoryFormat::kContiguous));
    }
  }

  std::span<const Tensor> list() const { return dense_; }
  // After a kernel has changed the list.
  void changed() const {
    for (std::size_t i = 0; i < dense_.size(); ++i) {
      if (dense_[i].is_same(gradients_[i])) {
        gradients_[i].bump_version();
      } else {
        Tensor(gradients_[i]).copy_(dense_[i]);
      }
    }
  }

 private:
  const std::vector<Tensor>& gradients_;
  std::vector<Tensor> dense_;
};

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                       ClipGradNormOptions options) {
  constexpr const char* kName = "clip_grad_norm_";
  DL_CHECK(max_norm >= 0, kInvalidArgument, "{}: max_norm is {}, wanted at least 0", kName,
           max_norm);
  DL_CHECK(options.norm_type > 0, kInvalidArgument, "{}: norm_type is {}, wanted more than 0",
           kName, options.norm_type);
  const NoGradGuard no_grad;
  const std::vector<Tensor> gradients = gradients_of(parameters, kName);
  if (gradients.empty()) return zeros({});
  const bool has_f64 =
      std::ranges::any_of(gradients, [](const Tensor& g) { return g.dtype() == DType::kF64; });
  const Device device = gradients.front().device();
  // A tensor and not a number, so that nothing waits for a GPU.
  const Tensor norm = empty({}, {.dtype = has_f64 ? DType::kF64 : DType::kF32, .device = device});
  const Dense dense(gradients);
  call<Op::kGradNorm>(device, dense.list(), options.norm_type, norm);
  if (options.error_if_nonfinite) {
    const double value = norm.item<double>();
    DL_CHECK(std::isfinite(value), kInvalidArgument,
             "{}: the norm of all gradients is {}, so that they cannot be clipped", kName, value);
  }
  call<Op::kClipGradNorm>(device, dense.list(), max_norm, norm);
  dense.changed();
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  constexpr const char* kName = "clip_grad_value_";
  DL_CHECK(clip_value >= 0, kInvalidArgument, "{}: clip_value is {}, wanted at least 0", kName,
           clip_value);
  const NoGradGuard no_grad;
  const std::vector<Tensor> gradients = gradients_of(parameters, kName);
  if (gradients.empty()) return;
  const Dense dense(gradients);
  const Device device = gradients.front().device();
  call<Op::kClipGradValue>(device, device, dense.list(), clip_value);
  dense.changed();
}

}  // namespace dl::nn::utils
