#include "core/autograd/function.h"

#include <algorithm>

#include "core/autograd/record.h"
#include "core/base/demangle.h"
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
  return node_->recorded_ && asks_gradient(node_->inputs_[argument].tensor);
}

FunctionNode::FunctionNode(const std::type_info& function, Backward gradient)
    : name_(class_name(function)), backward_(gradient) {
  context_.node_ = this;
}

FunctionNode::Form FunctionNode::form_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.sizes(), tensor.dtype(), tensor.device(), true};
}

void FunctionNode::begin() {
  for (const Input& input : inputs_) recorded_ = recorded_ || asks_gradient(input.tensor);
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

void FunctionNode::check_dirty(const TensorList& outputs) const {
  for (const Tensor& changed : context_.dirty_) {
    const bool is_input = std::ranges::any_of(
        inputs_, [&](const Input& each) { return each.tensor.is_same(changed); });
    DL_CHECK(is_input && is_listed(outputs, changed), kInvalidArgument,
             "{}: mark_dirty was given a tensor that is not both an argument of forward() and one "
             "of its results",
             name_);
    check_in_place(changed, recorded_, name_);
    DL_CHECK(!recorded_ || !changed.impl()->base, kNotImplemented,
             "{}: mark_dirty was given a view, whose base would not hear of the change; apply the "
             "function to a tensor of its own memory (x.clone())",
             name_);
  }
}

void FunctionNode::finish(TensorList& outputs) {
  check_dirty(outputs);
  for (const Tensor& changed : context_.dirty_) changed.bump_version();
  if (recorded_) {
    for (const Tensor& tensor : context_.to_save_) {
      saved_tensors_.push_back(saved_as(tensor));
    }
    set_output_count(static_cast<std::uint32_t>(outputs.size()));
  }
  const Ref<Node> self(this);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor& output = outputs[i];
    outputs_.push_back(form_of(output));
    if (!output.defined()) continue;
    const bool is_dirty = is_listed(context_.dirty_, output);
    const bool is_constant =
        !recorded_ || !is_floating(output.dtype()) || is_listed(context_.constants_, output);
    // forward() may return an argument, or a tensor that has a history. Its history must not
    // change, so the result is a new tensor that shares its memory.
    const bool is_input = std::ranges::any_of(
        inputs_, [&](const Input& each) { return each.tensor.is_same(output); });
    if (!is_dirty && (is_input || output.requires_grad())) output = output.detach();
    TensorImpl& impl = *output.impl();
    impl.is_function_view = impl.is_unrecorded_view && is_grad_enabled();
    if (!is_constant) detail::attach(output, self, static_cast<std::uint32_t>(i));
  }
  context_.to_save_.clear();
  context_.dirty_.clear();
  context_.constants_.clear();
  for (Input& input : inputs_) input.tensor = Tensor();
}

void FunctionNode::release_saved() noexcept {
  if (saved_tensors_.empty()) return;
  saved_tensors_.clear();
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

void FunctionNode::backward(BackwardContext& context) {
  TensorList gradients;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    Tensor gradient = context.take_grad_output(i);
    // Also of an output of integers, which never has a gradient: as in PyTorch, zeros of its dtype.
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
