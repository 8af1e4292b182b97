#include "nn/optim/swa_utils.h"

#include <string>
#include <utility>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/text/printable.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/tensor/factories.h"
#include "nn/layers/norm.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::optim::swa_utils {
namespace {

constexpr std::string_view kCount = "n_averaged";
constexpr std::string_view kPrefix = "module.";

void check_alike(const nn::StateDict& average, const nn::StateDict& model) {
  DL_CHECK(average.size() == model.size(), kMismatch,
           "AveragedModel: the average has {} parameters or buffers, the model {}", average.size(),
           model.size());
  for (std::size_t i = 0; i < model.size(); ++i) {
    const Tensor& a = average[i].tensor;
    const Tensor& b = model[i].tensor;
    DL_CHECK(average[i].name == model[i].name && a.sizes() == b.sizes() && a.dtype() == b.dtype(),
             kMismatch, "AveragedModel: the average has {} {} of {}, the model {} {} of {}",
             average[i].name, a.sizes().str(), name_of(a.dtype()), model[i].name, b.sizes().str(),
             name_of(b.dtype()));
  }
}

}  // namespace

AveragedModel::AveragedModel(nn::Module& average, const nn::Module& model,
                             AveragedModelOptions options)
    : average_(average), model_(model), options_(options) {
  DL_CHECK(!options.ema_decay || (*options.ema_decay >= 0 && *options.ema_decay <= 1),
           kInvalidArgument, "AveragedModel: ema_decay is {}, wanted 0 to 1",
           options.ema_decay.value_or(0));
  const NoGradGuard no_grad;
  for (const bool buffers : {false, true}) {
    const nn::StateDict to = buffers ? average.named_buffers() : average.named_parameters();
    const nn::StateDict from = buffers ? model.named_buffers() : model.named_parameters();
    check_alike(to, from);
    for (std::size_t i = 0; i < to.size(); ++i) Tensor(to[i].tensor).copy_(from[i].tensor);
  }
}

void AveragedModel::update_parameters() {
  dl::detail::not_repeatable("an average of models is updated", RepeatedBy::kNothing);
  const NoGradGuard no_grad;
  const double share =
      options_.ema_decay ? 1 - *options_.ema_decay : 1.0 / static_cast<double>(n_averaged_ + 1);
  const auto average_of_integers = [&](const Tensor& old, const Tensor& now) {
    const Tensor before = old.to(DType::kF32);
    if (!options_.ema_decay) {
      return before + sub(now, old).to(DType::kF32) / static_cast<double>(n_averaged_ + 1);
    }
    return before * *options_.ema_decay + now.to(DType::kF32) * share;
  };
  const auto take = [&](const nn::StateDict& to, const nn::StateDict& from, bool averaged) {
    check_alike(to, from);
    for (std::size_t i = 0; i < to.size(); ++i) {
      Tensor old = to[i].tensor;
      const Tensor& now = from[i].tensor;
      if (n_averaged_ == 0 || !averaged) {
        old.copy_(now);
      } else if (!is_floating(old.dtype())) {
        old.copy_(average_of_integers(old, now));
      } else {
        old.add_(sub(now, old), share);
      }
    }
  };
  take(average_.named_parameters(), model_.named_parameters(), true);
  take(average_.named_buffers(), model_.named_buffers(), options_.use_buffers);
  ++n_averaged_;
}

nn::StateDict AveragedModel::state_dict() const {
  nn::StateDict state{{std::string(kCount), tensor(n_averaged_)}};
  for (const nn::NamedTensor& entry : average_.state_dict()) {
    state.push_back({std::string(kPrefix) + entry.name, entry.tensor});
  }
  return state;
}

void AveragedModel::load_state_dict(const nn::StateDict& state) {
  nn::StateDict of_module;
  for (const nn::NamedTensor& entry : state) {
    if (entry.name == kCount) continue;
    DL_CHECK(entry.name.starts_with(kPrefix), kMismatch,
             "AveragedModel: load_state_dict: got {}, wanted \"n_averaged\" and names that begin "
             "with \"module.\"",
             quoted_name(entry.name));
    of_module.push_back({entry.name.substr(kPrefix.size()), entry.tensor});
  }
  const Tensor* const count = nn::find(state, kCount);
  DL_CHECK(count != nullptr && count->defined() && count->numel() == 1 &&
               !is_floating(count->dtype()) && count->item<std::int64_t>() >= 0,
           kMismatch,
           "AveragedModel: load_state_dict: \"n_averaged\" is {}, wanted an integer of at least 0",
           count == nullptr ? "missing" : count->str());
  average_.load_state_dict(of_module);
  n_averaged_ = count->item<std::int64_t>();
}

void AveragedModel::load(const nn::StateDict& state, std::span<const nn::SkippedTensor> skipped,
                         std::string_view path) {
  try {
    // A skipped tensor is an error: the whole state is needed.
    DL_CHECK(skipped.empty(), kMismatch, "AveragedModel: load_state_dict: cannot load {}: {}",
             nn::shown_name(skipped.front().name), skipped.front().reason);
    load_state_dict(state);
  } catch (const Error& error) {
    throw_error(error.kind(), "{}: {}", path, error.what());
  }
}

void update_bn(std::span<const Tensor> inputs, nn::Module& module) {
  // Restores each BatchNorm's momentum and each module's mode, even if a forward pass throws.
  struct Restore {
    ~Restore() {
      for (const auto& [norm, momentum] : momenta) norm->options.momentum = momentum;
      // Setting a mode also sets it in all submodules; these come later and get their own mode
      // back.
      for (const auto& [each, training] : modes) {
        if (training) {
          each->train();
        } else {
          each->eval();
        }
      }
    }
    std::vector<std::pair<nn::BatchNorm*, std::optional<double>>> momenta;
    std::vector<std::pair<nn::Module*, bool>> modes;
  } restore;
  for (const nn::NamedModule& entry : module.named_modules()) {
    restore.modes.emplace_back(entry.module, entry.module->is_training());
  }
  for (nn::BatchNorm* const norm : nn::batch_norms(module)) {
    if (!norm->options.track_running_stats) continue;
    restore.momenta.emplace_back(norm, norm->options.momentum);
    norm->reset_running_stats();
    norm->options.momentum = std::nullopt;
  }
  if (restore.momenta.empty()) return;
  const NoGradGuard no_grad;
  module.train();
  for (const Tensor& input : inputs) module(input);
}

}  // namespace dl::optim::swa_utils
