#include "core/autograd/graph/node.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "core/autograd/anomaly.h"
#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/leaf.h"
#include "core/autograd/record.h"

namespace dl {
namespace {

constinit thread_local std::uint64_t next_sequence = 1;

// Nodes without owners. The outermost delete on this thread frees them one by one, so that a chain
// of a million nodes does not overflow the stack.
struct Graveyard {
  Node* first = nullptr;
  bool draining = false;
};
constinit thread_local Graveyard graveyard;

}  // namespace

Node::Node() : sequence_(next_sequence++) {
  if (detail::modes.anomaly) [[unlikely]]
    extras().forward_call = std::make_unique<const detail::Backtrace>();
}

Node::Node(std::uint64_t sequence, bool leaf) noexcept : sequence_(sequence), leaf_(leaf) {}

struct Node::NumberedHook {
  std::uint64_t id;
  Hook call;
};

struct Node::Hooks {
  std::uint64_t next_id = 1;
  std::vector<NumberedHook> calls;  // their numbers ascend
};

Node::~Node() = default;
Node::Extras::~Extras() = default;

bool Node::Extras::sees_gradients() const noexcept {
  return !retained.empty() || std::ranges::any_of(hooks, [](const OutputHooks& each) {
    return !each.hooks->calls.empty();
  });
}

std::string Node::grad_fn_name() const {
  if (grad_fn_name_ != nullptr) return grad_fn_name_;
  std::string text;
  bool upper = true;
  for (const char c : name()) {
    if (c != '_')
      text += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = c == '_';
  }
  return text + "Backward0";
}

const detail::Backtrace* Node::forward_call() const noexcept {
  return extras_ == nullptr ? nullptr : extras_->forward_call.get();
}

void Node::refuse_recording() const {
  throw_error(ErrorKind::kNotImplemented,
              "create_graph: gradients of gradients of {} are not recorded", name());
}

void Node::backward_recorded(BackwardContext& /*context*/) {
  refuse_recording();
}

void Node::run_recorded(BackwardContext& context) {
  const WithHistory histories(*this, std::span(saved_).first(saved_count_));
  backward_recorded(context);
}

Node::WithHistory::WithHistory(Node& node, std::span<Saved> saved) : saved_(saved) {
  for (const Saved& entry : saved) {
    if (entry.origin == Origin::kOther) node.refuse_recording();
  }
  without_.reserve(saved.size());
  for (Saved& entry : saved) {
    Tensor with = entry.tensor;
    if (entry.tensor.defined() && entry.origin != Origin::kConstant) {
      const bool is_input = entry.origin == Origin::kInput;
      with = detail::with_history(entry.tensor, is_input ? node.edges()[entry.number]
                                                         : Edge{Ref<Node>(&node), entry.number});
    }
    without_.push_back(std::exchange(entry.tensor, std::move(with)));
  }
}

Node::WithHistory::~WithHistory() {
  for (std::size_t i = 0; i < without_.size(); ++i) saved_[i].tensor = std::move(without_[i]);
}

Node::Saved Node::saved_as(const Tensor& tensor, Origin origin, std::size_t number) {
  if (!tensor.defined()) return {};
  // Save an alias without history: an in-place write may give the tensor, or the base of a view, a
  // history that holds this node: y = x.square(); x.mul_(y).
  const bool fits = number <= std::numeric_limits<std::uint16_t>::max();
  return {Tensor(tensor.impl()->alias()), tensor.version(), static_cast<std::uint16_t>(number),
          fits ? origin : Origin::kOther};
}

Node::Saved Node::saved_as(const Tensor& tensor) const {
  if (!needs_grad(tensor)) return saved_as(tensor, Origin::kConstant, 0);
  const TensorImpl& impl = *tensor.impl();
  const RefCounted* const maker = impl.node ? impl.node.get() : impl.leaf.get();
  if (maker == this) return saved_as(tensor, Origin::kOutput, impl.output_nr);
  const std::span<const Edge> inputs = edges();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].node.get() == maker && (!impl.node || inputs[i].output_nr == impl.output_nr)) {
      return saved_as(tensor, Origin::kInput, i);
    }
  }
  return saved_as(tensor, Origin::kOther, 0);
}

const Tensor& Node::check_saved(const Saved& entry) const {
  if (entry.tensor.defined() && entry.tensor.version() != entry.version) [[unlikely]] {
    throw_error(
        ErrorKind::kInvalidArgument,
        "{}: backward needs a tensor of shape {} and dtype {} that was changed in place: it "
        "is at version {}, version {} was saved; change a clone of it, or change it after "
        "backward",
        name(), entry.tensor.sizes().str(), name_of(entry.tensor.dtype()), entry.tensor.version(),
        entry.version);
  }
  return entry.tensor;
}

void Node::add_saved(Saved entry) {
  DL_CHECK(saved_count_ < kMaxSaved, kInternal, "{}: more than {} tensors saved for backward",
           name(), kMaxSaved);
  saved_[saved_count_++] = std::move(entry);
}

void Node::save(const Tensor& tensor) {
  add_saved(saved_as(tensor));
}

void Node::save_input(std::size_t input, const Tensor& tensor) {
  add_saved(saved_as(tensor, Origin::kInput, input));
}

void Node::save_output(const Tensor& tensor, std::size_t output) {
  add_saved(saved_as(tensor, Origin::kOutput, output));
}

void Node::save_constant(const Tensor& tensor) {
  add_saved(saved_as(tensor, Origin::kConstant, 0));
}

const Tensor& Node::saved(std::size_t i) const {
  return check_saved(saved_[i]);
}

std::span<const Edge> Node::edges() const noexcept {
  return {many_edges_ != nullptr ? many_edges_.get() : inline_edges_.data(), edge_count_};
}

void Node::release_saved() noexcept {
  for (std::size_t i = 0; i < saved_count_; ++i) {
    released_ = released_ || saved_[i].tensor.defined();
    saved_[i].tensor = Tensor();
  }
}

Node::Extras& Node::extras() {
  if (extras_ == nullptr) extras_ = std::make_unique<Extras>();
  return *extras_;
}

std::shared_ptr<Node::Hooks> Node::hooks_of(std::uint32_t output_nr) const {
  if (extras_ == nullptr) return nullptr;
  const auto found = std::ranges::find(extras_->hooks, output_nr, &OutputHooks::output_nr);
  return found == extras_->hooks.end() ? nullptr : found->hooks;
}

void Node::set_hooks(std::uint32_t output_nr, std::shared_ptr<Hooks> hooks) {
  if (extras_ == nullptr && hooks == nullptr) return;
  std::vector<OutputHooks>& all = extras().hooks;
  std::erase_if(all, [output_nr](const OutputHooks& each) { return each.output_nr == output_nr; });
  if (hooks != nullptr) all.push_back({output_nr, std::move(hooks)});
}

HookHandle Node::add_hook(std::uint32_t output_nr, Hook hook) {
  std::shared_ptr<Hooks> hooks = hooks_of(output_nr);
  if (hooks == nullptr) {
    hooks = std::make_shared<Hooks>();
    set_hooks(output_nr, hooks);
  }
  const std::uint64_t id = hooks->next_id++;
  hooks->calls.push_back({id, std::move(hook)});
  const auto erase = [](void* list, std::uint64_t number) {
    std::erase_if(static_cast<Hooks*>(list)->calls,
                  [number](const NumberedHook& each) { return each.id == number; });
  };
  return {hooks, erase, id};
}

void Node::retain_grad(std::uint32_t output_nr, Ref<LeafNode> holder) {
  extras().retained.push_back({output_nr, std::move(holder)});
}

void Node::forget_retained(std::uint32_t output_nr) {
  if (extras_ == nullptr) return;
  const auto found = std::ranges::find(extras_->retained, output_nr, &Retained::output_nr);
  if (found != extras_->retained.end()) extras_->retained.erase(found);
}

void Node::run_hooks(std::span<Tensor> gradients) {
  if (!has_hooks()) return;
  dl::detail::not_repeatable("a gradient's hook runs");
  // A hook may register hooks, which run from the next pass on, and remove any, itself included. So
  // the loops look up each hook by its number and call a copy.
  for (std::size_t i = 0, count = extras_->hooks.size(); i < count; ++i) {
    const std::shared_ptr<Hooks> hooks = extras_->hooks[i].hooks;
    Tensor& gradient = gradients[extras_->hooks[i].output_nr];
    const std::uint64_t end = hooks->next_id;
    for (std::uint64_t id = 0; gradient.defined();) {
      const auto next = std::ranges::lower_bound(hooks->calls, id, {}, &NumberedHook::id);
      if (next == hooks->calls.end() || next->id >= end) break;
      // A copy, as a hook may remove itself.
      // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
      const NumberedHook hook = *next;
      id = hook.id + 1;
      Tensor replaced = hook.call(gradient);
      if (!replaced.defined()) continue;
      DL_CHECK(replaced.sizes() == gradient.sizes() && replaced.dtype() == gradient.dtype(), kShape,
               "register_hook: a hook of {} returned a gradient of shape {} and dtype {}, wanted "
               "shape {} and dtype {} as it was given; return an undefined tensor to leave it",
               name() == "leaf" ? "a leaf" : fmt::format("the result of {}", name()),
               replaced.sizes().str(), name_of(replaced.dtype()), gradient.sizes().str(),
               name_of(gradient.dtype()));
      gradient = std::move(replaced);
    }
  }
  for (const Retained& each : extras_->retained) {
    const Tensor& gradient = gradients[each.output_nr];
    if (gradient.defined() && each.holder->use_count() > 1) each.holder->add_retained(gradient);
  }
}

void Node::reserve_edges(std::size_t count) {
  if (count > kInlineEdges) many_edges_ = std::make_unique<Edge[]>(count);
}

void Node::add_edge(Edge edge) {
  Edge* const edges = many_edges_ != nullptr ? many_edges_.get() : inline_edges_.data();
  edges[edge_count_++] = std::move(edge);
}

void Node::operator delete(Node* node, std::destroying_delete_t) noexcept {
  node->next_dead_ = graveyard.first;
  graveyard.first = node;
  if (graveyard.draining) return;
  graveyard.draining = true;
  while (graveyard.first != nullptr) {
    Node* const dead = graveyard.first;
    graveyard.first = dead->next_dead_;
    dead->~Node();
    ::operator delete(static_cast<void*>(dead));
  }
  graveyard.draining = false;
}

Edge autograd::gradient_edge(const Tensor& tensor) {
  if (!needs_grad(tensor)) return {};
  const TensorImpl& impl = *tensor.impl();
  if (impl.is_older_than_storage()) [[unlikely]]
    detail::follow_base(tensor);
  if (!impl.node) return {Ref<Node>(static_cast<Node*>(impl.leaf.get())), 0};
  return {Ref<Node>(static_cast<Node*>(impl.node.get())), impl.output_nr};
}

Tensor detail::with_history(const Tensor& values, const Edge& edge) {
  if (!edge.node) return values;
  Tensor result(values.impl()->alias());
  TensorImpl& impl = *result.impl();
  impl.requires_grad = true;
  if (edge.node->is_leaf()) {
    impl.leaf = edge.node;
  } else {
    impl.node = edge.node;
    impl.output_nr = edge.output_nr;
  }
  impl.recorded_version = impl.storage->version();
  return result;
}

void detail::attach(const Tensor& output, const Ref<Node>& node, std::uint32_t output_nr) {
  TensorImpl& impl = *output.impl();
  DL_CHECK(is_floating(impl.dtype), kInternal, "{}: a result of dtype {} has no gradient",
           node->name(), name_of(impl.dtype));
  if (impl.leaf) {  // changed in place
    auto& leaf = static_cast<LeafNode&>(*impl.leaf);
    leaf.set_state(LeafNode::State::kResult);
    if (leaf.retains()) {
      if (impl.node) static_cast<Node&>(*impl.node).forget_retained(impl.output_nr);
      node->retain_grad(output_nr, Ref<LeafNode>(&leaf));
    }
  }
  impl.node = node;
  impl.output_nr = output_nr;
  impl.requires_grad = true;
  impl.recorded_version = impl.storage->version();
}

Tensor detail::finish_composed(Tensor result, const Tensor& input, const char* grad_fn) {
  if (result.is_same(input)) return result;
  if (!input.defined() || result.storage() != input.storage()) drop_base(result);
  if (result.impl()->node) static_cast<Node&>(*result.impl()->node).set_grad_fn_name(grad_fn);
  return result;
}

void detail::set_base(const Tensor& view, const Tensor& viewed) {
  TensorImpl& impl = *view.impl();
  const TensorImpl& from = *viewed.impl();
  // A view that is a leaf has its own gradient, so the chain of bases ends there.
  const bool is_bottom = !from.base || (from.requires_grad && viewed.is_leaf());
  impl.base = is_bottom ? Ref<TensorImpl>(viewed.impl()) : from.base;
  impl.is_unrecorded_view = !is_grad_enabled() || (!is_bottom && from.is_unrecorded_view);
  impl.is_function_view = !is_bottom && from.is_function_view;
  impl.view_version = viewed.version();
}

Tensor detail::drop_base(Tensor result) {
  TensorImpl& impl = *result.impl();
  impl.base = nullptr;
  impl.is_unrecorded_view = false;
  impl.is_function_view = false;
  return result;
}

void check_in_place(const Tensor& self, bool recorded, std::string_view op) {
  const TensorImpl& impl = *self.impl();
  if (!recorded) {
    if (!is_grad_enabled() || !impl.is_view_of_requires_grad()) return;
    DL_CHECK(!impl.is_unrecorded_view || impl.is_function_view, kInvalidArgument,
             "{}: a view that was made under a NoGradGuard was to be changed in place without one, "
             "and its base requires gradients, which would not know of it; do it under a "
             "NoGradGuard, or on detach()",
             op);
    detail::check_view_in_place(self, op);
    return;
  }
  DL_CHECK(
      !(self.requires_grad() && self.is_leaf()), kInvalidArgument,
      "{}: a leaf that requires gradients was to be changed in place; do it under a NoGradGuard, "
      "or on detach()",
      op);
  if (impl.base) detail::check_view_in_place(self, op);
}

void check_not_expanded(const Tensor& self, std::string_view op) {
  if (self.numel() < 2 || self.is_contiguous()) return;
  for (std::size_t d = 0; d < self.sizes().size(); ++d) {
    DL_CHECK(self.sizes()[d] < 2 || self.strides()[d] != 0, kInvalidArgument,
             "{}: a tensor of shape {} and strides {} was to be changed in place, but it is "
             "expanded: several of its elements are one in memory; clone() it first",
             op, self.sizes().str(), self.strides().str());
  }
}

bool autograd::is_exclusive(const Tensor& tensor) noexcept {
  const TensorImpl& impl = *tensor.impl();
  // The base of a view holds another reference to the storage.
  const TensorImpl* const base = impl.base.get();
  return impl.use_count() == 1 && (base == nullptr || base->use_count() == 1) &&
         impl.storage->use_count() == (base == nullptr ? 1U : 2U) && !impl.storage->owner() &&
         (impl.storage->deferred() == nullptr || !impl.storage->deferred()->is_shared());
}

}  // namespace dl
