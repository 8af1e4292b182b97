#include "core/autograd/node.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/autograd/anomaly.h"
#include "core/autograd/grad_mode.h"
#include "core/autograd/modes.h"
#include "core/autograd/record.h"

namespace dl {
namespace {

constinit thread_local std::uint64_t next_sequence = 1;

// Nodes whose last owner is gone; the outermost delete on this thread frees them one by one, so
// that a chain of a million nodes needs no stack.
struct Graveyard {
  Node* first = nullptr;
  bool draining = false;
};
constinit thread_local Graveyard graveyard;

Tensor without_history(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  return Tensor(
      make_ref<TensorImpl>(impl.storage, impl.shape, impl.strides, impl.offset, impl.dtype));
}

}  // namespace

Node::Node() : sequence_(next_sequence++) {
  if (detail::modes.anomaly) [[unlikely]]
    extras().forward_call = std::make_unique<const detail::Backtrace>();
}

Node::Node(std::uint64_t sequence, bool leaf) noexcept : sequence_(sequence), leaf_(leaf) {}

Node::~Node() = default;
Node::Extras::~Extras() = default;

std::string Node::grad_fn_name() const {
  if (shown_ != nullptr) return shown_;
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

Node::Saved Node::saved_as(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  // A view holds its base, whose history may come to hold this node.
  return {tensor.impl()->base ? without_history(tensor) : tensor, tensor.version()};
}

Node::Saved Node::saved_as_output(const Tensor& tensor) {
  return saved_as(without_history(tensor));
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

void Node::save(const Tensor& tensor) {
  DL_CHECK(saved_count_ < kMaxSaved, kInternal, "{}: more than {} tensors saved for backward",
           name(), kMaxSaved);
  saved_[saved_count_++] = saved_as(tensor);
}

void Node::save_output(const Tensor& tensor) {
  save(without_history(tensor));
}

const Tensor& Node::saved(std::size_t i) const {
  return check_saved(saved_[i]);
}

std::span<const Edge> Node::edges() const noexcept {
  return {many_edges_ != nullptr ? many_edges_.get() : inline_edges_.data(), edge_count_};
}

void Node::release_saved() noexcept {
  for (std::size_t i = 0; i < saved_count_; ++i) saved_[i].tensor = Tensor();
  released_ = released_ || saved_count_ != 0;
}

Node::Extras& Node::extras() {
  if (extras_ == nullptr) extras_ = std::make_unique<Extras>();
  return *extras_;
}

HookHandle Node::add_hook(std::uint32_t output_nr, Hook hook) {
  std::shared_ptr<Hooks>& hooks = extras().hooks;
  if (hooks == nullptr) hooks = std::make_shared<Hooks>();
  const std::uint64_t id = hooks->next_id++;
  hooks->calls.push_back({id, output_nr, std::move(hook)});
  const auto erase = [](void* list, std::uint64_t number) {
    std::erase_if(static_cast<Hooks*>(list)->calls,
                  [number](const OutputHook& each) { return each.id == number; });
  };
  return {hooks, erase, id};
}

void Node::retain_grad(std::uint32_t output_nr) {
  if (retained_grad(output_nr) == nullptr) extras().retained.push_back({output_nr, Tensor()});
}

Tensor* Node::retained_grad(std::uint32_t output_nr) noexcept {
  if (extras_ == nullptr) return nullptr;
  const auto found = std::ranges::find(extras_->retained, output_nr, &Retained::output_nr);
  return found == extras_->retained.end() ? nullptr : &found->gradient;
}

void Node::move_retained_grad(std::uint32_t output_nr, Node& next, std::uint32_t next_output_nr) {
  Tensor* const kept = retained_grad(output_nr);
  if (kept == nullptr) return;
  next.extras().retained.push_back({next_output_nr, std::move(*kept)});
  std::erase_if(extras_->retained,
                [output_nr](const Retained& each) { return each.output_nr == output_nr; });
}

void Node::run_hooks(std::span<Tensor> gradients) {
  if (!has_hooks()) return;
  // A hook may register others, which run from the next pass on, and remove any, itself included.
  // So the loop finds each hook by its number, and calls a copy of it.
  if (const std::shared_ptr<Hooks> hooks = extras_->hooks) {
    const std::uint64_t end = hooks->next_id;
    for (std::uint64_t id = 0;;) {
      const auto next = std::ranges::lower_bound(hooks->calls, id, {}, &OutputHook::id);
      if (next == hooks->calls.end() || next->id >= end) break;
      const OutputHook hook = *next;
      id = hook.id + 1;
      Tensor& gradient = gradients[hook.output_nr];
      if (!gradient.defined()) continue;
      Tensor replaced = hook.call(gradient);
      if (!replaced.defined()) continue;
      DL_CHECK(replaced.sizes() == gradient.sizes() && replaced.dtype() == gradient.dtype(), kShape,
               "{}: a hook turned a gradient of shape {} and dtype {} into {} and {}", name(),
               gradient.sizes().str(), name_of(gradient.dtype()), replaced.sizes().str(),
               name_of(replaced.dtype()));
      gradient = std::move(replaced);
    }
  }
  for (Retained& each : extras_->retained) {
    const Tensor& gradient = gradients[each.output_nr];
    if (!gradient.defined()) continue;
    each.gradient = each.gradient.defined() ? each.gradient.add(gradient)
                                            : gradient.clone(MemoryFormat::kContiguous);
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

Edge gradient_edge(const Tensor& tensor) {
  if (!asks_gradient(tensor)) return {};
  const TensorImpl& impl = *tensor.impl();
  if (impl.is_behind_base()) [[unlikely]]
    detail::follow_base(tensor);
  return {Ref<Node>(static_cast<Node*>(impl.node.get())), impl.output_nr};
}

void detail::attach(const Tensor& output, const Ref<Node>& node, std::uint32_t output_nr) {
  TensorImpl& impl = *output.impl();
  DL_CHECK(is_floating(impl.dtype), kInternal, "{}: a result of dtype {} has no gradient",
           node->name(), name_of(impl.dtype));
  if (impl.node) {  // changed in place
    auto& before = static_cast<Node&>(*impl.node);
    if (!before.is_leaf()) before.move_retained_grad(impl.output_nr, *node, output_nr);
  }
  impl.node = node;
  impl.output_nr = output_nr;
  impl.requires_grad = true;
  impl.recorded_version = impl.storage->version();
}

Tensor detail::shown_as(Tensor result, const Tensor& input, const char* grad_fn) {
  if (!result.is_same(input) && result.impl()->node && !result.is_leaf()) {
    static_cast<Node&>(*result.impl()->node).show_as(grad_fn);
  }
  return result;
}

void check_in_place(const Tensor& self, bool recorded, std::string_view op) {
  const TensorImpl& impl = *self.impl();
  if (!recorded) {
    DL_CHECK(!impl.is_unrecorded_view || !is_grad_enabled() || !impl.base->requires_grad,
             kInvalidArgument,
             "{}: a view that was made under a NoGradGuard was to be changed in place without one, "
             "and its base requires gradients, which would not know of it; do it under a "
             "NoGradGuard, or on detach()",
             op);
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

bool is_exclusive(const Tensor& tensor) noexcept {
  const TensorImpl& impl = *tensor.impl();
  // The base of a view has a handle of its own to the storage.
  const TensorImpl* const base = impl.base.get();
  return impl.use_count() == 1 && (base == nullptr || base->use_count() == 1) &&
         impl.storage->use_count() == (base == nullptr ? 1U : 2U) && !impl.storage->owner();
}

}  // namespace dl
