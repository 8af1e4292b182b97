// The members of OptimizerOf<Options>, for the file that instantiates it. That file specialises
// OptimizerFacts<Options>:
//   using Step                the kernel's arguments; step(options) makes it
//   kName, kSlots             the optimizer's name; its state, counts first, in Step's order
//   refs(options)             the options by their names in state_dict()
//   check(options)            throws for a bad option
// and, if they differ from OptimizerDefaults:
//   uses(options, slot)       true if a step with these options needs the slot
//   start(options, slot)      the initial value of a slot
//   begins_otherwise(options) true if the first step has a different formula
//   fixed_option(name)        the fixed value of a PyTorch option that this class does not offer
#pragma once

#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/option.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/profiler/span.h"
#include "core/tape/arrangement.h"
#include "core/tape/recorder.h"
#include "core/tensor/factories.h"
#include "nn/optim/optimizer_of.h"

namespace dl::optim {

struct StateSlot {
  std::string_view name;
  bool is_count = false;  // a 0-d float32; else of the parameter's shape and state_dtype()
  bool optional = false;  // unused with some options
};

template <typename Options>
struct OptimizerFacts;

template <typename Options>
struct OptimizerDefaults {
  static bool uses(const Options&, std::size_t) { return true; }
  static double start(const Options&, std::size_t) { return 0; }
  static bool begins_otherwise(const Options&) { return false; }
  static std::optional<bool> fixed_option(std::string_view) { return std::nullopt; }
};

inline void require_betas(std::string_view optimizer, std::pair<double, double> betas) {
  for (const int i : {0, 1}) {
    const double beta = i == 0 ? betas.first : betas.second;
    DL_CHECK(beta >= 0 && beta < 1, kInvalidArgument,
             "{}: beta {} is {}, wanted at least 0 and less than 1", optimizer, i, beta);
  }
}

template <typename Options>
OptimizerOf<Options>::OptimizerOf(const std::vector<Tensor>& params, Options options)
    : Optimizer(OptimizerFacts<Options>::kName) {
  add_param_group(params, options);
}

template <typename Options>
OptimizerOf<Options>::OptimizerOf(const std::vector<ParamGroup<Options>>& groups)
    : Optimizer(OptimizerFacts<Options>::kName) {
  DL_CHECK(!groups.empty(), kInvalidArgument, "{}: the list of parameter groups is empty", name());
  for (const auto& group : groups) add_param_group(group.params, group.options);
}

template <typename Options>
void OptimizerOf<Options>::add_param_group(const std::vector<Tensor>& params, Options options) {
  OptimizerFacts<Options>::check(options);
  append(params);
  tape::rearranged();  // zero_grad() has more to do
  options_.push_back(options);
  state_.resize(parameters().size() * std::size(OptimizerFacts<Options>::kSlots));
}

template <typename Options>
Tensor* OptimizerOf<Options>::state_at(std::size_t parameter) {
  return &state_[parameter * std::size(OptimizerFacts<Options>::kSlots)];
}

template <typename Options>
void OptimizerOf<Options>::step() {
  using Facts = OptimizerFacts<Options>;
  using Step = typename Facts::Step;
  static_assert(std::size(Facts::kSlots) == Step::kCounts + Step::kState);
  // A tape calls this function again: it reads options and counts that change.
  if (tape::Recorder* const recorder = tape::Recorder::current()) [[unlikely]] {
    return recorder->run_host("optimizer", this, [this] { step(); });
  }
  const profiler::Span span({"Optimizer.step#", name(), ".step"}, profiler::Category::kOptimizer);
  const std::vector<Tensor>& gradients = take_gradients();
  // Created before the first change, because it may throw.
  std::vector<std::pair<Tensor*, Tensor>> begun;
  for (std::size_t g = 0; g < group_count(); ++g) {
    for (std::size_t i = range_of(g).begin; i < range_of(g).end; ++i) {
      if (!gradients[i].defined()) continue;
      const Tensor& p = parameters()[i];
      for (std::size_t slot = 0; slot < std::size(Facts::kSlots); ++slot) {
        Tensor& state = state_at(i)[slot];
        if (state.defined() || !Facts::uses(options_[g], slot)) continue;
        check_may_begin(p);
        const Shape shape = Facts::kSlots[slot].is_count ? Shape() : p.sizes();
        const DType dtype = Facts::kSlots[slot].is_count ? DType::kF32 : state_dtype(p);
        begun.emplace_back(&state, full(shape, Facts::start(options_[g], slot),
                                        {.dtype = dtype, .device = p.device()}));
      }
    }
  }
  auto next_begun = begun.begin();
  for (std::size_t g = 0; g < group_count(); ++g) {
    const Options& options = options_[g];
    gathered_.clear();  // of the previous group, or left by an exception
    for (std::size_t i = range_of(g).begin; i < range_of(g).end; ++i) {
      if (!gradients[i].defined()) continue;
      const Tensor& p = parameters()[i];
      kernels::OptimizerTensor item{
          .n = p.numel(), .parameter = p.data_ptr(), .gradient = gradients[i].data_ptr()};
      for (std::size_t slot = 0; slot < std::size(Facts::kSlots); ++slot) {
        Tensor& state = state_at(i)[slot];
        if (next_begun != begun.end() && next_begun->first == &state) {
          state = std::move((next_begun++)->second);
          // If the step may be skipped, the state must be valid for the next step.
          item.first_step = !may_be_skipped();
        }
        if (!Facts::uses(options, slot)) continue;
        if (slot < Step::kCounts) {
          item.counts[slot] = state.template data<float>();
        } else {
          item.state[slot - Step::kCounts] = state.data_ptr();
        }
      }
      gathered_.add(p, item);
      p.bump_version();
    }
    for (const auto& list : gathered_.lists) {
      if (list.items.empty()) continue;
      call<Op::kOptimizerStep>(list.device, list.device, list.dtype, list.items,
                               kernels::OptimizerStep(Facts::step(options)),
                               scalars_for(list.device, g));
    }
  }
  drop_gradients();
}

// If the first step differs from later ones, the host has to know whether it was skipped.
template <typename Options>
bool OptimizerOf<Options>::can_be_skipped() const {
  using Facts = OptimizerFacts<Options>;
  for (std::size_t g = 0; g < group_count(); ++g) {
    if (!Facts::begins_otherwise(options_[g])) continue;
    for (std::size_t i = range_of(g).begin; i < range_of(g).end; ++i) {
      const Tensor& first = state_[i * std::size(Facts::kSlots)];
      if (!first.defined() && parameters()[i].grad().defined()) return false;
    }
  }
  return true;
}

template <typename Options>
std::optional<bool> OptimizerOf<Options>::fixed_option(std::string_view name) const {
  return OptimizerFacts<Options>::fixed_option(name);
}

template <typename Options>
std::vector<OptionRef> OptimizerOf<Options>::options_of(std::size_t group) {
  return OptimizerFacts<Options>::refs(options_[group]);
}

template <typename Options>
std::vector<Optimizer::StateRef> OptimizerOf<Options>::state_of(std::size_t parameter) {
  std::vector<StateRef> refs;
  Tensor* state = state_at(parameter);
  for (const StateSlot& slot : OptimizerFacts<Options>::kSlots) {
    refs.push_back({slot.name, state++, !slot.is_count, slot.optional});
  }
  return refs;
}

}  // namespace dl::optim
