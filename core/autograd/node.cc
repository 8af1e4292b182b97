#include "core/autograd/node.h"

#include <utility>

#include "core/autograd/grad_mode.h"
#include "core/autograd/record.h"

namespace dl {
namespace {

constinit thread_local bool recording = true;
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

bool grad_enabled() noexcept {
  return recording;
}

bool detail::set_grad_enabled(bool enabled) noexcept {
  return std::exchange(recording, enabled);
}

Node::Node() noexcept : sequence_(next_sequence++) {}

void Node::save(const Tensor& tensor) {
  DL_CHECK(saved_count_ < kMaxSaved, kInternal, "{}: more than {} tensors saved for backward",
           name(), kMaxSaved);
  if (!tensor.defined()) {
    saved_[saved_count_++] = {};
    return;
  }
  // A view holds its base, whose history may come to hold this node.
  saved_[saved_count_++] = {tensor.impl()->base ? without_history(tensor) : tensor,
                            tensor.version()};
}

void Node::save_output(const Tensor& tensor) {
  save(without_history(tensor));
}

const Tensor& Node::saved(std::size_t i) const {
  const Saved& entry = saved_[i];
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

std::span<const Edge> Node::edges() const noexcept {
  return {many_edges_ != nullptr ? many_edges_.get() : inline_edges_.data(), edge_count_};
}

void Node::release_saved() noexcept {
  for (std::size_t i = 0; i < saved_count_; ++i) saved_[i].tensor = Tensor();
  released_ = released_ || saved_count_ != 0;
}

void Node::add_hook(std::uint32_t output_nr, Hook hook) {
  if (hooks_ == nullptr) hooks_ = std::make_unique<std::vector<OutputHook>>();
  hooks_->push_back({output_nr, std::move(hook)});
}

void Node::run_hooks(std::span<Tensor> gradients) const {
  if (hooks_ == nullptr) return;
  // By number and on a copy: a hook may register further ones, which run from the next pass on.
  for (std::size_t i = 0, count = hooks_->size(); i < count; ++i) {
    const OutputHook hook = (*hooks_)[i];
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
  impl.node = node;
  impl.output_nr = output_nr;
  impl.requires_grad = true;
  impl.recorded_version = impl.storage->version();
}

void check_in_place(const Tensor& self, bool recorded, std::string_view op) {
  const TensorImpl& impl = *self.impl();
  if (!recorded) {
    DL_CHECK(!impl.is_unrecorded_view || !grad_enabled() || !impl.base->requires_grad,
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
  DL_CHECK(
      !impl.base, kInvalidArgument,
      "{}: a view was to be changed in place in an operation that is recorded for backward, "
      "which is not supported; use the operation that returns a new tensor, or clone() the view",
      op);
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
