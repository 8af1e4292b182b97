#include "core/autograd/function.h"

#include <algorithm>

#include "core/autograd/record.h"
#include "core/base/text/printable.h"
#include "core/tensor/factories.h"

namespace dl::autograd {

TensorList AutogradContext::get_saved_variables() const {
  DL_CHECK(!node_->is_released(), kInvalidArgument,
           "{}: what was saved for backward is freed; give the earlier backward pass "
           "retain_graph = true",
           node_->name());
  TensorList result;
  for (const auto& each : node_->saved_tensors_) result.push_back(node_->check_saved(each));
  return result;
}

bool AutogradContext::needs_input_grad(std::size_t argument) const {
  DL_CHECK(argument < node_->inputs_.size(), kIndex,
           "{}: needs_input_grad: argument {} was asked for, forward() has {}", node_->name(),
           argument, node_->inputs_.size());
  if (running_ != nullptr) return running_->needs(argument);
  return node_->recorded_ && needs_grad(node_->inputs_[argument].tensor);
}

FunctionNode::FunctionNode(const std::type_info& function, Backward gradient,
                           bool once_differentiable)
    : name_(class_name(function)), backward_(gradient), once_differentiable_(once_differentiable) {
  context_.node_ = this;
}

FunctionNode::Form FunctionNode::form_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.sizes(), tensor.dtype(), tensor.device(), true};
}

void FunctionNode::begin() {
  for (const Input& input : inputs_) recorded_ = recorded_ || needs_grad(input.tensor);
  recorded_ = recorded_ && is_grad_enabled();
  reserve_edges(inputs_.size());
  for (Input& input : inputs_) {
    add_edge(recorded_ ? gradient_edge(input.tensor) : Edge{});
    input.form = form_of(input.tensor);
  }
}

bool FunctionNode::is_listed(const TensorList& list, const Tensor& tensor) const noexcept {
  return std::ranges::any_of(list, [&](const Tensor& each) { return each.is_same(tensor); });
}

bool FunctionNode::is_argument(const Tensor& tensor) const noexcept {
  return std::ranges::any_of(inputs_,
                             [&](const Input& each) { return each.tensor.is_same(tensor); });
}

FunctionNode::Kinds FunctionNode::kinds_of(const TensorList& outputs) const {
  Kinds kinds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    const bool is_first =
        std::none_of(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i),
                     [&](const Tensor& each) { return each.is_same(output); });
    const bool is_changed = is_first && is_listed(context_.dirty_, output);
    const bool is_constant = is_listed(context_.constants_, output);
    if (!output.defined() || (is_changed && is_constant)) {
      kinds.push_back(Kind::kLeft);
    } else {
      kinds.push_back(is_changed    ? Kind::kChanged
                      : is_constant ? Kind::kConstant
                                    : Kind::kOrdinary);
    }
  }
  return kinds;
}

void FunctionNode::check_dirty(const TensorList& outputs) const {
  for (const Tensor& changed : context_.dirty_) {
    DL_CHECK(is_argument(changed) && is_listed(outputs, changed), kInvalidArgument,
             "{}: mark_dirty was given a tensor that is not both an argument of forward() and one "
             "of its results",
             name_);
    check_in_place(changed, recorded_, name_);
    DL_CHECK(!recorded_ || !changed.impl()->base, kNotImplemented,
             "{}: mark_dirty was given a view, whose base would not hear of the change; apply the "
             "function to a tensor of its own memory (x.clone())",
             name_);
    DL_CHECK(
        !recorded_ || !needs_grad(changed) || !is_listed(context_.constants_, changed),
        kInvalidArgument,
        "{}: mark_dirty and mark_non_differentiable were given the same argument, which would keep "
        "the gradient of its old values; return a clone() of it as the constant",
        name_);
  }
}

// The argument in this memory, preferably one that requires gradients; null if there is none.
const Tensor* FunctionNode::argument_in(const Ref<Storage>& memory) const noexcept {
  const Tensor* found = nullptr;
  for (const Input& input : inputs_) {
    if (!input.tensor.defined() || input.tensor.storage() != memory) continue;
    if (needs_grad(input.tensor)) return &input.tensor;
    if (found == nullptr) found = &input.tensor;
  }
  return found;
}

// Makes results that share memory with an argument, or with each other, views of one tensor, so
// that a recorded write into one of them is refused, or seen by the others. Does so also if
// forward() returned the argument itself or its detach().
void FunctionNode::tie(TensorList& outputs, const Kinds& kinds) const {
  const auto make_view = [](Tensor& output, const Tensor& base) {
    Tensor view = output.detach();
    detail::set_base(view, base);
    output = std::move(view);
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor& output = outputs[i];
    if (kinds[i] == Kind::kLeft || kinds[i] == Kind::kChanged) continue;
    const Tensor* const argument = argument_in(output.storage());
    if (kinds[i] == Kind::kConstant) {
      if (is_argument(output) || output.requires_grad()) output = output.detach();
    } else if (argument != nullptr) {
      make_view(output, *argument);
    } else if (output.requires_grad()) {
      // The output has a history: it was made elsewhere, or under an EnableGradGuard. The history
      // must not change.
      const Tensor made = std::move(output);
      output = made.detach();
      if (made.impl()->base || made.impl()->use_count() > 1) detail::set_base(output, made);
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (kinds[i] != Kind::kOrdinary) continue;
    Tensor& output = outputs[i];
    const auto whole = std::ranges::find_if(outputs, [&](const Tensor& each) {
      return each.defined() && each.storage() == output.storage() && !each.impl()->base;
    });
    if (whole == outputs.end() || &*whole == &output) continue;
    if (output.impl()->base.get() != whole->impl()) make_view(output, *whole);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (kinds[i] == Kind::kLeft || kinds[i] == Kind::kChanged) continue;
    TensorImpl& impl = *outputs[i].impl();
    if (!impl.base) continue;
    if (impl.base->use_count() == 1) {
      detail::drop_base(outputs[i]);  // its base was a temporary of forward()
    } else {
      impl.is_unrecorded_view = true;
      impl.is_function_view = is_grad_enabled();
    }
  }
}

// A result that forward() returned counts as that result, also if it is an argument that was
// changed in place.
FunctionNode::Saved FunctionNode::saved_of(const Tensor& tensor, const TensorList& outputs,
                                           const Kinds& kinds) const {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool has_history = kinds[i] == Kind::kOrdinary || kinds[i] == Kind::kChanged;
    if (has_history && is_floating(outputs[i].dtype()) && outputs[i].is_same(tensor)) {
      return saved_as(tensor, Origin::kOutput, i);
    }
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].is_tensor && tensor.defined() && inputs_[i].tensor.is_same(tensor)) {
      return saved_as(tensor, Origin::kInput, i);
    }
  }
  return saved_as(tensor, Origin::kConstant, 0);
}

void FunctionNode::finish(TensorList& outputs) {
  check_dirty(outputs);
  for (const Tensor& changed : context_.dirty_) changed.bump_version();
  for (const Tensor& output : outputs) outputs_.push_back(form_of(output));
  const Kinds kinds = kinds_of(outputs);
  if (recorded_) {
    for (const Tensor& tensor : context_.to_save_) {
      saved_tensors_.push_back(saved_of(tensor, outputs, kinds));
    }
    set_output_count(static_cast<std::uint32_t>(outputs.size()));
  }
  context_.to_save_.clear();
  context_.dirty_.clear();
  context_.constants_.clear();
  tie(outputs, kinds);
  for (Input& input : inputs_) input.tensor = Tensor();
  if (!recorded_) return;
  const Ref<Node> self(this);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool has_history = kinds[i] == Kind::kOrdinary || kinds[i] == Kind::kChanged;
    if (!has_history || !is_floating(outputs[i].dtype())) continue;
    detail::attach(outputs[i], self, static_cast<std::uint32_t>(i));
  }
  // A result changed in place may be the base of others: they view its current values.
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (kinds[i] == Kind::kOrdinary) outputs[i].impl()->view_version = outputs[i].version();
  }
}

void FunctionNode::release_saved() noexcept {
  if (saved_tensors_.empty()) return;
  for (Saved& each : saved_tensors_) each.tensor = Tensor();
  mark_released();
}

void FunctionNode::check_gradient(const Tensor& gradient, std::size_t argument) const {
  const Form& form = inputs_[argument].form;
  DL_CHECK(gradient.sizes() == form.shape, kShape,
           "{}: backward returned a gradient of shape {} for argument {} of shape {}", name_,
           gradient.sizes().str(), argument, form.shape.str());
  DL_CHECK(gradient.dtype() == form.dtype, kDType,
           "{}: backward returned a gradient of dtype {} for argument {} of dtype {}", name_,
           name_of(gradient.dtype()), argument, name_of(form.dtype));
  DL_CHECK(gradient.device() == form.device, kInvalidArgument,
           "{}: backward returned a gradient on {} for argument {} on {}", name_,
           gradient.device().str(), argument, form.device.str());
}

void FunctionNode::backward_recorded(BackwardContext& context) {
  if (once_differentiable_) refuse_recording();
  const WithHistory histories(*this, saved_tensors_);
  backward(context);
}

void FunctionNode::backward(BackwardContext& context) {
  TensorList gradients;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    Tensor gradient = context.take_grad_output(i);
    // Integer outputs, which never have a gradient, get zeros of their dtype, as in PyTorch.
    if (!gradient.defined() && context_.materializes_ && outputs_[i].is_defined) {
      gradient =
          zeros(outputs_[i].shape, {.dtype = outputs_[i].dtype, .device = outputs_[i].device});
    }
    gradients.push_back(std::move(gradient));
  }
  struct Running {
    const BackwardContext*& slot;
    ~Running() { slot = nullptr; }
  } const running{context_.running_};
  context_.running_ = &context;
  const TensorList results = backward_(&context_, std::move(gradients));
  DL_CHECK(results.size() == inputs_.size(), kInvalidArgument,
           "{}: backward returned {} gradients, wanted {}: one for each argument of forward(), "
           "undefined for arguments that are no tensors",
           name_, results.size(), inputs_.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) continue;
    DL_CHECK(inputs_[i].is_tensor, kInvalidArgument,
             "{}: backward returned a gradient for argument {}, which is no tensor", name_, i);
    if (!context.needs(i)) continue;
    check_gradient(results[i], i);
    context.give(i, results[i]);
  }
}

}  // namespace dl::autograd
