// Cutting masked channels out of a network.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/tensor_random.h"
#include "core/tape/arrangement.h"
#include "core/tensor/factories.h"
#include "nn/layers/activation/activation_with.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/conv/conv_variants.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/module/computed.h"
#include "nn/module/modes.h"
#include "nn/utils/prune/channels.h"
#include "nn/utils/prune/filters.h"
#include "nn/utils/prune/prune.h"

namespace dl::nn::utils::prune {
namespace {

using detail::Channel;
using detail::ChannelMap;
using detail::kNone;
using detail::MappedTensor;
using nn::detail::Computed;

// Whether all elements at an index of a dimension are 0, for each index.
std::vector<bool> zeros_along(const Tensor& tensor, std::size_t dim) {
  const Tensor lines = tensor.transpose(0, static_cast<std::int64_t>(dim))
                           .to(DType::kF64)
                           .contiguous()
                           .view({tensor.size(static_cast<std::int64_t>(dim)), -1});
  const Tensor largest = amax(abs(lines), 1).contiguous();
  std::vector<bool> zeros;
  for (std::int64_t i = 0; i < largest.numel(); ++i) {
    zeros.push_back(largest.data<double>()[i] == 0);
  }
  return zeros;
}

bool is_pruned_in(const MappedTensor& mapped) {
  return Computed::find(*mapped.tensor.module, mapped.tensor.name) != nullptr;
}

// The channels of which all filters are masked.
std::vector<bool> masked_channels(ChannelMap& map) {
  std::vector<bool> masked(map.channel_count());
  for (std::size_t c = 0; c < masked.size(); ++c) {
    masked[c] = map.obstacle(static_cast<Channel>(c)).empty();
  }
  for (const MappedTensor& each : map.tensors()) {
    if (!each.is_filters) continue;
    const std::vector<bool> zeros = zeros_along(each.tensor.value, 0);
    for (std::size_t i = 0; i < zeros.size(); ++i) {
      if (!zeros[i] || !is_pruned_in(each)) {
        masked[static_cast<std::size_t>(each.channels[0][i])] = false;
      }
    }
  }
  return masked;
}

// Throws if a masked channel would not be 0.
void check_other_parameters(ChannelMap& map, const std::vector<bool>& masked) {
  for (const MappedTensor& each : map.tensors()) {
    if (each.is_filters || !each.tensor.is_parameter) continue;
    for (std::size_t d = 0; d < each.channels.size(); ++d) {
      if (each.channels[d].empty()) continue;
      const std::vector<bool> zeros = zeros_along(each.tensor.value, d);
      for (std::size_t i = 0; i < zeros.size(); ++i) {
        const Channel channel = each.channels[d][i];
        DL_CHECK(zeros[i] || channel == kNone || !masked[static_cast<std::size_t>(channel)],
                 kInvalidArgument,
                 "speed_up: element {} of \"{}\" is not 0, but the filter of its channel is "
                 "masked; mask both, as prune_filters() does",
                 i, each.tensor.str());
      }
    }
  }
}

// What remains of a tensor.
Tensor without(const MappedTensor& mapped, const Tensor& tensor, const std::vector<bool>& masked) {
  Tensor rest = tensor;
  for (std::size_t d = 0; d < mapped.channels.size(); ++d) {
    std::vector<std::int64_t> kept;
    for (std::size_t i = 0; i < mapped.channels[d].size(); ++i) {
      const Channel channel = mapped.channels[d][i];
      if (channel == kNone || !masked[static_cast<std::size_t>(channel)]) {
        kept.push_back(static_cast<std::int64_t>(i));
      }
    }
    if (kept.size() == mapped.channels[d].size()) continue;
    DL_CHECK(!kept.empty(), kInvalidArgument,
             "speed_up: all of \"{}\" is masked; prune fewer filters", mapped.tensor.str());
    rest = index_select(rest, static_cast<std::int64_t>(d), dl::tensor(kept));
  }
  return rest;
}

// Sets the sizes that a convolution keeps beside its weight. They are still those from before the
// cut, after which a layer with groups may have as many columns as a depthwise one.
template <typename Conv>
void resize_conv(Conv& conv) {
  const bool is_depthwise = conv.options.groups > 1 && conv.in_channels == conv.options.groups;
  if (is_depthwise) {
    conv.options.groups = conv.weight.size(0) * conv.options.groups / conv.out_channels;
  }
  conv.out_channels = conv.weight.size(0);
  conv.in_channels = conv.weight.size(1) * conv.options.groups;
}

void resize(Module& module) {
  if (auto* const conv = dynamic_cast<Conv2d*>(&module)) {
    resize_conv(*conv);
  } else if (auto* const line = dynamic_cast<Conv1d*>(&module)) {
    resize_conv(*line);
  } else if (auto* const linear = dynamic_cast<Linear*>(&module)) {
    linear->out_features = linear->weight.size(0);
    linear->in_features = linear->weight.size(1);
  } else if (auto* const norm = dynamic_cast<BatchNorm*>(&module)) {
    if (norm->weight.defined()) norm->num_features = norm->weight.size(0);
    if (norm->running_mean.defined()) norm->num_features = norm->running_mean.size(0);
  } else if (auto* const slopes = dynamic_cast<PReLU*>(&module)) {
    slopes->options.num_parameters = slopes->weight.numel();
  }
}

// Sets a convolution's sizes to those of now; does nothing to other modules, whose sizes follow
// from their tensors.
std::function<void()> sizes_of_now(Module& module) {
  const auto of = [](auto& conv) {
    return [&conv, in = conv.in_channels, out = conv.out_channels, groups = conv.options.groups] {
      conv.in_channels = in;
      conv.out_channels = out;
      conv.options.groups = groups;
    };
  };
  if (auto* const conv = dynamic_cast<Conv2d*>(&module)) return of(*conv);
  if (auto* const line = dynamic_cast<Conv1d*>(&module)) return of(*line);
  return [&module] { resize(module); };
}

// Tensors that smaller ones replace. The destructor puts them back, and the layers' sizes, unless
// keep() is called.
class Cut {
 public:
  Cut() = default;
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;
  ~Cut() {
    if (is_kept_) return;
    for (const Replaced& each : replaced_) *each.place = each.before;
    for (const auto& [module, put_back] : sizes_) put_back();
    tape::rearranged();
  }

  void replace(const detail::OfModule& of, const Tensor& rest) {
    sizes_.try_emplace(of.module, sizes_of_now(*of.module));
    Tensor* const place = Computed::find_registered(*of.module, of.name);
    replaced_.push_back({place, *place});
    const bool is_trained = place->requires_grad();
    *place = rest.detach();
    if (of.is_parameter) place->requires_grad_(is_trained);
  }
  void resize_layers() {
    for (const auto& [module, put_back] : sizes_) resize(*module);
    tape::rearranged();
  }
  void keep() { is_kept_ = true; }

 private:
  struct Replaced {
    Tensor* place;
    Tensor before;
  };
  std::vector<Replaced> replaced_;
  std::map<Module*, std::function<void()>> sizes_;
  bool is_kept_ = false;
};

// Why the result is not the one before; empty: it is, but for rounding.
std::string difference(const Tensor& before, const Tensor& after) {
  if (before.sizes() != after.sizes()) {
    return fmt::format("its result has shape {}, and had {}", after.sizes().str(),
                       before.sizes().str());
  }
  const double epsilon = before.dtype() == DType::kF64    ? std::numeric_limits<double>::epsilon()
                         : before.dtype() == DType::kF16  ? 0x1p-10
                         : before.dtype() == DType::kBF16 ? 0x1p-7
                                                          : 0x1p-23;
  const double largest = amax(abs(before)).item<double>();
  const double distance = amax(abs(before - after)).item<double>();
  if (distance <= std::sqrt(epsilon) * largest) return "";
  return fmt::format("its result differs by {:.2g}, the largest element being {:.2g}", distance,
                     largest);
}

// The network's results on the sample and, if it is floating, on numbers of [0, 1), since a sample
// of zeros may give zeros in any case.
std::vector<Tensor> results_on(Module& network, const Tensor& sample) {
  const NoGradGuard no_grad;
  const nn::detail::EvalMode evaluating(network);
  std::vector<Tensor> results{network(sample)};
  if (is_floating(sample.dtype())) {
    Generator generator(1);
    results.push_back(network(rand(sample.sizes(), {.dtype = sample.dtype()}, generator)));
  }
  return results;
}

// What makes the network's results other than those from before; empty: nothing does.
std::string difference(Module& network, const Tensor& sample, const std::vector<Tensor>& before) {
  try {
    const std::vector<Tensor> after = results_on(network, sample);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const bool is_sample = i == 0;
      if (!is_sample && !all(isfinite(before[i])).item<bool>()) continue;
      if (std::string why = difference(before[i], after[i]); !why.empty()) return why;
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

SpeedUp speed_up(Module& network, const Tensor& sample) {
  DL_CHECK(is_pruned(network), kInvalidArgument,
           "speed_up: {} is not pruned; call prune_filters() first", network.type_name());
  const NoGradGuard no_grad;
  ChannelMap map(network, sample);
  const std::vector<bool> masked = masked_channels(map);
  check_other_parameters(map, masked);
  std::vector<Tensor> rest;
  for (const MappedTensor& each : map.tensors()) {
    rest.push_back(without(each, each.tensor.value, masked));
  }
  const std::vector<Tensor> before = results_on(network, sample);
  SpeedUp report{.parameters_before = network.count_parameters(), .changes = {}};
  for (const NamedModule& each : network.named_modules()) {
    for (const std::string& name : Computed::names(*each.module)) remove(*each.module, name);
  }
  Cut cut;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const detail::OfModule& of = map.tensors()[i].tensor;
    if (rest[i].is_same(of.value)) continue;
    cut.replace(of, rest[i]);
    report.changes.push_back(
        fmt::format("{}: {} -> {}", of.str(), of.value.sizes().str(), rest[i].sizes().str()));
  }
  cut.resize_layers();
  const std::string why = difference(network, sample, before);
  DL_CHECK(why.empty(), kMismatch,
           "speed_up: the cut network does not do the same: {}; forward() must take sizes from its "
           "tensors, as flatten(1) does, not from numbers",
           why);
  cut.keep();
  report.parameters_after = network.count_parameters();
  return report;
}

}  // namespace dl::nn::utils::prune
