#include "nn/optim/adam.h"

#include "core/ops/dispatch.h"
#include "core/tensor/factories.h"

namespace dl::optim {

template <typename Options>
AdamOf<Options>::AdamOf(const std::vector<Tensor>& params, Options options)
    : Optimizer(Options::kName) {
  add_param_group(params, options);
}

template <typename Options>
AdamOf<Options>::AdamOf(const std::vector<ParamGroup<Options>>& groups)
    : Optimizer(Options::kName) {
  DL_CHECK(!groups.empty(), kInvalidArgument, "{}: the list of parameter groups is empty", name());
  for (const auto& group : groups) add_param_group(group.params, group.options);
}

template <typename Options>
void AdamOf<Options>::add_param_group(const std::vector<Tensor>& params, Options options) {
  require_not_negative("lr", options.lr);
  require_not_negative("eps", options.eps);
  require_not_negative("weight_decay", options.weight_decay);
  const auto check_beta = [this](int index, double beta) {
    DL_CHECK(beta >= 0 && beta < 1, kInvalidArgument,
             "{}: beta {} is {}, wanted at least 0 and less than 1", name(), index, beta);
  };
  check_beta(0, options.betas.first);
  check_beta(1, options.betas.second);
  append(params);
  options_.push_back(options);
  moments_.resize(parameters().size());
}

template <typename Options>
void AdamOf<Options>::step() {
  gathered_.clear();  // what an exception left behind
  const std::vector<Tensor>& gradients = take_gradients();
  // Made before the first change, as making them may throw.
  std::vector<std::pair<std::size_t, Moments>> begun;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined() || moments_[i].step.defined()) continue;
    const Tensor& p = parameters()[i];
    check_may_begin(p);
    begun.emplace_back(i, Moments{zeros({}, {.device = p.device()}), zeros_like(p), zeros_like(p)});
  }
  for (auto& [i, moments] : begun) moments_[i] = std::move(moments);
  for (std::size_t g = 0; g < group_count(); ++g) {
    std::int64_t t = 0;  // of what is gathered
    const Range range = range_of(g);
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const Tensor& p = parameters()[i];
      const Tensor& grad = gradients[i];
      if (!grad.defined()) continue;
      const Moments& m = moments_[i];
      float* const count = m.step.template data<float>();
      const bool on_device = p.device().type == DeviceType::kCUDA;  // the kernel counts there
      if (!on_device) {
        const auto own = static_cast<std::int64_t>(*count += 1);
        // Parameters differ in t only where some went without a gradient.
        if (own != t) flush(g, t);
        t = own;
      }
      gathered_.add(p, {.n = p.numel(),
                        .parameter = p.data_ptr(),
                        .gradient = grad.data_ptr(),
                        .mean = m.exp_avg.data_ptr(),
                        .square = m.exp_avg_sq.data_ptr(),
                        .step = on_device ? count : nullptr});
      p.bump_version();
    }
    flush(g, t);
  }
  drop_gradients();
}

template <typename Options>
void AdamOf<Options>::flush(std::size_t group, std::int64_t t) {
  const Options& options = options_[group];
  const kernels::AdamStep step{.lr = options.lr,
                               .beta1 = options.betas.first,
                               .beta2 = options.betas.second,
                               .eps = options.eps,
                               .weight_decay = options.weight_decay,
                               .decoupled = Options::kDecoupled,
                               .step = t};
  for (const auto& list : gathered_.lists) {
    if (list.items.empty()) continue;
    call<Op::kAdamStep>(list.device, list.device, list.dtype, list.items, step,
                        scalars_for(list.device, group));
  }
  gathered_.clear();
}

template <typename Options>
std::vector<Optimizer::OptionRef> AdamOf<Options>::options_of(std::size_t group) {
  Options& o = options_[group];
  return {{"lr", &o.lr},
          {"betas.0", &o.betas.first},
          {"betas.1", &o.betas.second},
          {"eps", &o.eps},
          {"weight_decay", &o.weight_decay}};
}

template <typename Options>
std::vector<Optimizer::StateRef> AdamOf<Options>::state_of(std::size_t parameter) {
  Moments& m = moments_[parameter];
  return {{"step", &m.step, false}, {"exp_avg", &m.exp_avg}, {"exp_avg_sq", &m.exp_avg_sq}};
}

template class AdamOf<AdamOptions>;
template class AdamOf<AdamWOptions>;

}  // namespace dl::optim
