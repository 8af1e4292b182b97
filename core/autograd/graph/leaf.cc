#include "core/autograd/graph/leaf.h"

#include <algorithm>

#include "core/autograd/record.h"
#include "core/memory/cuda/caching_allocator.h"
#include "core/tape/arrangement.h"
#include "core/tape/recorder.h"
#include "core/tensor/factories.h"
#include "core/tensor/print.h"

namespace dl {

using autograd::GradFailed;
using autograd::GradReady;

namespace {

// Leaves run as soon as they are ready, before any other node.
constexpr std::uint64_t kFirst = ~std::uint64_t{0};

LeafNode* leaf_node(const Tensor& tensor) noexcept {
  return tensor.defined() ? static_cast<LeafNode*>(tensor.impl()->leaf.get()) : nullptr;
}

LeafNode& make_leaf_node(const Tensor& tensor) {
  Ref<RefCounted>& leaf = tensor.impl()->leaf;
  const bool is_new = !leaf;
  if (is_new) leaf = make_ref<LeafNode>(tensor);
  auto& node = static_cast<LeafNode&>(*leaf);
  // A recording makes one leaf, which has no gradient at this point of each repetition.
  if (is_new && dl::detail::thread_watch != nullptr) [[unlikely]]
    node.zero_grad(true);
  return node;
}

LeafNode& require_leaf(const Tensor& tensor, std::string_view what) {
  LeafNode* const leaf = leaf_node(tensor);
  DL_CHECK(leaf != nullptr && tensor.requires_grad() && tensor.is_leaf(), kInvalidArgument,
           "{}: a leaf that requires gradients was wanted", what);
  return *leaf;
}

}  // namespace

LeafNode::LeafNode(const Tensor& leaf) : Node(kFirst, true), dtype_(leaf.dtype()) {
  set_shape(leaf.sizes(), leaf.strides());
}

void LeafNode::set_shape(const Shape& shape, const Strides& strides) {
  shape_ = shape;
  strides_ = is_dense(shape, strides) ? strides : contiguous_strides(shape);
}

void LeafNode::backward(BackwardContext& context) {
  accumulate(context.take_grad_output());
}

void LeafNode::check(const Tensor& grad, std::string_view what) const {
  DL_CHECK(grad.sizes() == shape_, kShape, "{}: a gradient of shape {} for a leaf of shape {}",
           what, grad.sizes().str(), shape_.str());
  DL_CHECK(grad.dtype() == dtype_, kDType, "{}: a gradient of dtype {} for a leaf of dtype {}",
           what, name_of(grad.dtype()), name_of(dtype_));
}

bool LeafNode::has_leaf_strides(const Tensor& gradient) const {
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    if (shape_[d] != 1 && gradient.strides()[d] != strides_[d]) return false;
  }
  return true;
}

void LeafNode::add_retained(const Tensor& gradient) {
  dl::detail::not_repeatable("a result retains its gradient");
  if (guard_) guard_();
  if (!fixed_) {
    grad_ = defined_ ? grad_.add(gradient) : gradient.clone(MemoryFormat::kContiguous);
  } else if (defined_) {
    grad_.add_(gradient);
  } else {
    grad_.copy_(gradient);
  }
  defined_ = true;
}

void LeafNode::accumulate(Tensor gradient) {
  if (state_ == State::kFrozen) return;
  DL_CHECK(
      state_ != State::kResult, kInvalidArgument,
      "backward: a leaf of shape {} became a result after it was used, since it, or the tensor "
      "whose memory it shows, was changed in place; it takes no gradient",
      shape_.str());
  check(gradient, "backward");
  if (guard_) guard_();
  const bool recorded = is_grad_enabled();  // a pass with create_graph
  if (recorded) check_recorded();
  note_state();
  if (defined_ && recorded) {
    grad_ = grad_.add(gradient);
    return;
  }
  if (defined_) {
    grad_.add_(gradient);
    return;
  }
  if (fixed_) {
    grad_.copy_(gradient);
  } else if (!recorded && is_exclusive(gradient) && has_leaf_strides(gradient) &&
             !cuda::OutlivingMemory::is_needed()) {
    grad_ = std::move(gradient);
  } else {
    const cuda::OutlivingMemory memory;
    grad_ = as_strided(empty(shape_, {.dtype = dtype_, .device = gradient.device()}), shape_,
                       strides_, 0);
    grad_.copy_(gradient);
  }
  defined_ = true;
  if (ThreadWatch* const watch = dl::detail::thread_watch) [[unlikely]] {
    watch->changed(tape::kGradientStep, [leaf = Ref<LeafNode>(this), grad = grad_] {
      if (!leaf->fixed_) leaf->grad_ = grad;
      leaf->defined_ = true;
    });
  }
}

void LeafNode::check_recorded() const {
  DL_CHECK(!fixed_, kNotImplemented,
           "backward: create_graph cannot write a gradient with a history into fixed memory, as "
           "DistributedDataParallel sets it for a leaf of shape {}; use autograd::grad()",
           shape_.str());
  dl::detail::not_repeatable("backward() creates a graph");
}

void LeafNode::require_state() const {
  const auto address = [](const LeafNode& leaf) {
    return leaf.has_memory() ? leaf.grad_.impl()->data() : nullptr;
  };
  dl::detail::thread_watch->needs(
      this,
      [leaf = Ref<const LeafNode>(this), address, defined = defined_, at = address(*this)] {
        return leaf->defined_ == defined && address(*leaf) == at;
      },
      [leaf = Ref<LeafNode>(const_cast<LeafNode*>(this)), defined = defined_, grad = grad_] {
        leaf->defined_ = defined;
        leaf->grad_ = grad;
      });
}

void LeafNode::set_grad(const Tensor& grad) {
  if (!grad.defined()) return zero_grad(true);
  dl::detail::not_repeatable("set_grad() is called");
  check(grad, "set_grad");
  if (fixed_) {
    grad_.copy_(grad);
  } else {
    // The gradient's history may hold this leaf.
    grad_ = grad.requires_grad() ? grad.detach() : grad;
  }
  defined_ = true;
}

void LeafNode::zero_grad(bool set_to_none) {
  if (ThreadWatch* const watch = dl::detail::thread_watch) [[unlikely]] {
    if (set_to_none) {
      watch->settled(this);
      watch->changed("zero_grad", [leaf = Ref<LeafNode>(this)] { leaf->zero_grad(true); });
    } else {
      require_state();
    }
  }
  if (!defined_) return;
  if (!set_to_none) {
    grad_ = grad_.requires_grad() ? grad_.detach() : grad_;
    grad_.zero_();
    return;
  }
  defined_ = false;
  if (!fixed_) grad_ = Tensor();
}

void LeafNode::set_destination(const Tensor& destination) {
  dl::detail::not_repeatable("a gradient gets other memory");
  if (!destination.defined()) {
    fixed_ = false;
    if (!defined_) grad_ = Tensor();
    return;
  }
  check(destination, "set_grad_destination");
  Tensor memory = destination.detach();
  if (defined_) memory.copy_(grad_);
  grad_ = std::move(memory);
  fixed_ = true;
}

GradTarget LeafNode::target() const {
  if (has_hooks() || state_ != State::kWanted) return {};
  note_state();
  if (!fixed_ && !defined_) return {};
  if (guard_) guard_();
  return {grad_, defined_};
}

void LeafNode::mark_written() {
  if (ThreadWatch* const watch = dl::detail::thread_watch) [[unlikely]] {
    watch->changed(tape::kGradientStep, [leaf = Ref<LeafNode>(this)] { leaf->mark_written(); });
  }
  grad_.bump_version();
  defined_ = true;
}

std::uint64_t LeafNode::add_callbacks(GradReady ready, GradFailed failed) {
  callbacks_.push_back({next_id_, std::move(ready), std::move(failed)});
  return next_id_++;
}

void LeafNode::remove_callbacks(std::uint64_t id) noexcept {
  std::erase_if(callbacks_, [id](const Callbacks& callbacks) { return callbacks.id == id; });
}

template <typename Call>
void LeafNode::call_each(const Call& call) const {
  // Iterate by number: a callback may add callbacks, which run from the next pass on, and remove
  // any, itself included.
  const std::uint64_t end = next_id_;
  for (std::uint64_t next = 0;;) {
    const auto callbacks = std::ranges::lower_bound(callbacks_, next, {}, &Callbacks::id);
    if (callbacks == callbacks_.end() || callbacks->id >= end) return;
    next = callbacks->id + 1;
    call(*callbacks);
  }
}

void LeafNode::run_ready() const {
  if (callbacks_.empty()) return;
  // The callbacks see the state of their owners in each run, as those of DistributedDataParallel.
  if (tape::Recorder* const recorder = tape::Recorder::current()) [[unlikely]] {
    const Ref<const LeafNode> leaf(this);
    return recorder->run_host(
        "gradient ready", this, [leaf] { leaf->run_ready(); },
        [leaf](const std::exception_ptr& error) {
          if (backward_pass() != 0) leaf->run_failed(error);
        });
  }
  call_each([](const Callbacks& callbacks) {
    const GradReady callback = callbacks.ready;  // a copy: it may be removed while it runs
    callback();
  });
}

void LeafNode::run_failed(const std::exception_ptr& error) const {
  call_each([&error](const Callbacks& callbacks) {
    if (!callbacks.failed) return;
    const GradFailed callback = callbacks.failed;
    callback(error);
  });
}

std::uint64_t on_grad_ready(const Tensor& leaf, GradReady ready, GradFailed failed) {
  DL_CHECK(ready != nullptr, kInvalidArgument, "on_grad_ready: there is no callback");
  return require_leaf(leaf, "on_grad_ready").add_callbacks(std::move(ready), std::move(failed));
}

void remove_grad_ready(const Tensor& leaf, std::uint64_t id) noexcept {
  if (LeafNode* const node = leaf_node(leaf)) node->remove_callbacks(id);
}

void set_grad_destination(const Tensor& leaf, const Tensor& destination) {
  if (!destination.defined()) {  // also if the leaf is frozen now
    if (LeafNode* const node = leaf_node(leaf)) node->set_destination(destination);
    return;
  }
  require_leaf(leaf, "set_grad_destination").set_destination(destination);
}

void set_grad_guard(const Tensor& leaf, std::function<void()> guard) {
  if (guard) return require_leaf(leaf, "set_grad_guard").set_guard(std::move(guard));
  if (LeafNode* const node = leaf_node(leaf)) node->set_guard(nullptr);
}

void set_grad_error(const Tensor& leaf, Ref<FirstError> error) {
  require_leaf(leaf, "set_grad_error").set_error(std::move(error));
}

void clear_grad_error(const Tensor& leaf) noexcept {
  if (LeafNode* const node = leaf_node(leaf)) node->set_error(nullptr);
}

const FirstError* grad_error(const Tensor& leaf) noexcept {
  const LeafNode* const node = leaf_node(leaf);
  return node == nullptr ? nullptr : node->error().get();
}

// Tensor's members that belong to autograd.

bool Tensor::is_leaf() const {
  const TensorImpl& impl = get("is_leaf");
  return !impl.node && !impl.is_behind_base();
}

Tensor& Tensor::requires_grad_(bool requires_grad) {
  get("requires_grad_");
  DL_CHECK(requires_grad || is_leaf(), kInvalidArgument,
           "requires_grad_: a result was told to require no gradients, which only a leaf can; use "
           "its detach()");
  DL_CHECK(!requires_grad || is_floating(dtype()), kDType,
           "requires_grad_: only floating tensors have gradients, this one holds {}",
           name_of(dtype()));
  if (!is_leaf()) return *this;
  if (requires_grad) {
    make_leaf_node(*this).set_state(LeafNode::State::kWanted);
  } else if (LeafNode* const leaf = leaf_node(*this)) {
    leaf->set_state(LeafNode::State::kFrozen);
  }
  if (impl_->requires_grad != requires_grad) tape::rearranged();
  impl_->requires_grad = requires_grad;
  return *this;
}

Tensor Tensor::grad() const {
  get("grad");
  const LeafNode* const leaf = leaf_node(*this);
  return leaf == nullptr ? Tensor() : leaf->grad();
}

void Tensor::set_grad(const Tensor& grad) const {
  get("set_grad");
  if (!grad.defined()) return zero_grad();
  LeafNode* leaf = leaf_node(*this);
  if (leaf == nullptr) {
    leaf = &make_leaf_node(*this);
    leaf->set_state(is_leaf() ? LeafNode::State::kFrozen : LeafNode::State::kResult);
  }
  leaf->set_grad(grad);
}

void Tensor::zero_grad(bool set_to_none) const {
  get("zero_grad");
  if (LeafNode* const leaf = leaf_node(*this)) leaf->zero_grad(set_to_none);
}

void Tensor::retain_grad() const {
  get("retain_grad");
  DL_CHECK(requires_grad(), kInvalidArgument,
           "retain_grad: the tensor requires no gradients, there would be none to keep");
  if (is_leaf() || retains_grad()) return;
  const Edge edge = gradient_edge(*this);
  LeafNode& holder = make_leaf_node(*this);
  holder.set_state(LeafNode::State::kResult);
  holder.set_retains();
  edge.node->retain_grad(edge.output_nr, Ref<LeafNode>(&holder));
}

bool Tensor::retains_grad() const {
  get("retains_grad");
  const LeafNode* const leaf = leaf_node(*this);
  return leaf != nullptr && leaf->retains();
}

Tensor Tensor::detach() const {
  return Tensor(get("detach").alias());
}

Tensor& Tensor::detach_() {
  get("detach_");
  DL_CHECK(!impl_->base, kInvalidArgument,
           "detach_: a view was to be made a leaf, but its base would still have the history; use "
           "detach()");
  if (impl_->node) {
    // The tensor's hooks stay with its history, and with the tensor if it becomes a leaf.
    std::shared_ptr<Node::Hooks> hooks =
        static_cast<Node&>(*impl_->node).hooks_of(impl_->output_nr);
    if (hooks != nullptr) make_leaf_node(*this);
    if (impl_->leaf) leaf_node(*this)->set_hooks(0, std::move(hooks));
  }
  if (impl_->leaf) leaf_node(*this)->set_state(LeafNode::State::kFrozen);
  impl_->requires_grad = false;
  impl_->recorded_version = 0;
  impl_->node = nullptr;
  impl_->output_nr = 0;
  return *this;
}

HookHandle Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  DL_CHECK(hook != nullptr, kInvalidArgument, "register_hook: there is no hook");
  get("register_hook");
  DL_CHECK(requires_grad(), kInvalidArgument,
           "register_hook: the tensor requires no gradients, the hook would never run");
  const Edge edge = gradient_edge(*this);
  return edge.node->add_hook(edge.output_nr, std::move(hook));
}

std::string Tensor::str() const {
  if (!defined() || !requires_grad()) return to_text(*this);
  if (is_leaf()) return to_text(*this, std::vector<std::string>{"requires_grad=True"});
  try {
    gradient_edge(*this);
  } catch (const Error&) {  // a view that cannot take its base's history
    return to_text(*this, std::vector<std::string>{"grad_fn=<Invalid>"});
  }
  const std::string name = static_cast<const Node*>(impl_->node.get())->grad_fn_name();
  return to_text(*this, std::vector<std::string>{"grad_fn=<" + name + ">"});
}

}  // namespace dl
