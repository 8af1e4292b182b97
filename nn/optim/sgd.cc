#include "nn/optim/sgd.h"

#include <utility>

#include "core/ops/dispatch.h"
#include "core/tensor/factories.h"

namespace dl::optim {

SGD::SGD(const std::vector<Tensor>& params, SGDOptions options) : Optimizer("SGD") {
  add_param_group(params, options);
}

SGD::SGD(const std::vector<ParamGroup<SGDOptions>>& groups) : Optimizer("SGD") {
  DL_CHECK(!groups.empty(), kInvalidArgument, "SGD: the list of parameter groups is empty");
  for (const auto& group : groups) add_param_group(group.params, group.options);
}

void SGD::add_param_group(const std::vector<Tensor>& params, SGDOptions options) {
  require_not_negative("lr", options.lr);
  require_not_negative("momentum", options.momentum);
  require_not_negative("weight_decay", options.weight_decay);
  DL_CHECK(!options.nesterov || (options.momentum > 0 && options.dampening == 0), kInvalidArgument,
           "SGD: nesterov needs a momentum and zero dampening, got momentum {} and dampening {}",
           options.momentum, options.dampening);
  append(params);
  options_.push_back(options);
  momentum_buffer_.resize(parameters().size());
}

void SGD::step() {
  const std::vector<Tensor>& gradients = take_gradients();
  // Made before the first change, as making them may throw.
  std::vector<std::pair<std::size_t, Tensor>> begun;
  for (std::size_t g = 0; g < group_count(); ++g) {
    if (options_[g].momentum == 0) continue;
    const Range range = range_of(g);
    for (std::size_t i = range.begin; i < range.end; ++i) {
      if (!gradients[i].defined() || momentum_buffer_[i].defined()) continue;
      const Tensor& p = parameters()[i];
      check_may_begin(p);
      // Of a step that may be skipped zeros must remain; without dampening they begin as well.
      begun.emplace_back(i, may_be_skipped() ? zeros_like(p) : empty_like(p));
    }
  }
  auto next_begun = begun.begin();
  for (std::size_t g = 0; g < group_count(); ++g) {
    const SGDOptions& options = options_[g];
    gathered_.clear();
    const Range range = range_of(g);
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const Tensor& p = parameters()[i];
      const Tensor& grad = gradients[i];
      if (!grad.defined()) continue;
      Tensor& buffer = momentum_buffer_[i];
      const bool begins = next_begun != begun.end() && next_begun->first == i;
      if (begins) buffer = std::move((next_begun++)->second);
      gathered_.add(p, {.n = p.numel(),
                        .parameter = p.data_ptr(),
                        .gradient = grad.data_ptr(),
                        .momentum = options.momentum != 0 ? buffer.data_ptr() : nullptr,
                        .first_step = begins && !may_be_skipped()});
      p.bump_version();
    }
    const kernels::SgdStep step{.lr = options.lr,
                                .momentum = options.momentum,
                                .dampening = options.dampening,
                                .weight_decay = options.weight_decay,
                                .nesterov = options.nesterov};
    for (const auto& list : gathered_.lists) {
      if (list.items.empty()) continue;
      call<Op::kSgdStep>(list.device, list.device, list.dtype, list.items, step,
                         scalars_for(list.device, g));
    }
  }
  drop_gradients();
}

// With dampening a first step is another one than those after it, and the host has to know whether
// it was taken.
bool SGD::can_be_skipped() const {
  for (std::size_t g = 0; g < group_count(); ++g) {
    if (options_[g].momentum == 0 || options_[g].dampening == 0) continue;
    const Range range = range_of(g);
    for (std::size_t i = range.begin; i < range.end; ++i) {
      if (!momentum_buffer_[i].defined() && parameters()[i].grad().defined()) return false;
    }
  }
  return true;
}

std::vector<Optimizer::OptionRef> SGD::options_of(std::size_t group) {
  SGDOptions& o = options_[group];
  return {{"lr", &o.lr},
          {"momentum", &o.momentum},
          {"dampening", &o.dampening},
          {"weight_decay", &o.weight_decay},
          {"nesterov", &o.nesterov}};
}

std::vector<Optimizer::StateRef> SGD::state_of(std::size_t parameter) {
  return {{"momentum_buffer", &momentum_buffer_[parameter]}};
}

}  // namespace dl::optim
