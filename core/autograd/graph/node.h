// Node: one recorded operation, which turns gradients of its outputs into gradients of its inputs.
//
// An operation with a node of its own is written like this (core/ops/softmax/softmax.cc is the
// model):
//
//     struct SoftmaxBackward final : Node {
//       std::string_view name() const noexcept override { return "softmax"; }
//       void backward(BackwardContext& context) override {
//         const Tensor grad = empty_like(saved(0));
//         call<Op::kSoftmaxBackward>(grad.device(), context.grad_output(), saved(0), dim, grad);
//         context.give(0, grad);                 // the gradient of input 0
//       }
//       std::int64_t dim = 0;
//     };
//
//     Tensor softmax(const Tensor& input, std::int64_t dim) {
//       Tensor output = empty_like(input);
//       call<Op::kSoftmax>(input.device(), input, dim, output);
//       if (auto* node = record<SoftmaxBackward>(output, input)) {
//         node->dim = dim;
//         node->save(output);
//       }
//       return output;
//     }
//
// record<>() (record.h) returns null if no input requires gradients, so a forward pass without
// gradients pays one test. Input i is the i-th tensor given to record(). Tensors for backward() go
// through save() and saved(): saved() throws if the tensor was written in between, and the tensors
// are freed after backward. Numbers and shapes are plain members.
//
// Gradients of gradients: a pass with create_graph runs backward_recorded() instead, with recording
// on. It may use recorded operations only. A node whose backward() does so already is a
// ComposedNode. Other nodes write a second one, or refuse by default. In such a pass saved() gives
// a saved input the history of that input, and a saved output the node itself. save() finds out
// which of the two a tensor is; for a copy, or another layout, save_input() and save_output() say
// so. Anything else that save() gets counts as a constant if it requires no gradients; if it does,
// the pass refuses.
//
// Ownership: an output's TensorImpl owns its node, a node owns the nodes of its inputs (edges) and
// what it saved. Saved tensors have no history, except while backward_recorded() runs: a node never
// owns one of its results, not even through a later write in place, so there are no cycles. Chains
// are freed without recursion, however long. Single inheritance only.
// Thread-safety: a graph belongs to one thread at a time; leaves may be shared by reading threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/lifetime/hook_handle.h"
#include "core/base/lifetime/ref.h"
#include "core/tensor/tensor.h"

namespace dl::detail {
class Backtrace;
}

namespace dl::autograd {

class BackwardContext;
class LeafNode;
class Node;

// The destination of an input's gradient: an output of the node that made it; null if no gradient
// is wanted.
struct Edge {
  Ref<Node> node;
  std::uint32_t output_nr = 0;
};

// The edge that receives the tensor's gradient: to its grad_fn, or to its LeafNode if it is a leaf;
// null if it needs no gradient. If a recorded operation has changed a view's base since, this first
// makes the view's history again, from that of its base. Throws kInvalidArgument if it cannot have
// one (detail::follow_base()).
Edge gradient_edge(const Tensor& tensor);

class Node : public RefCounted {
 public:
  static constexpr std::size_t kMaxSaved = 6;

  // The operation's name in error texts.
  virtual std::string_view name() const noexcept = 0;
  // PyTorch's name of the node, which a printed tensor shows: "LogSoftmaxBackward0" if name() is
  // "log_softmax", or the name that set_grad_fn_name() set.
  virtual std::string grad_fn_name() const;
  // `name` has to live as long as the program.
  void set_grad_fn_name(const char* name) noexcept { grad_fn_name_ = name; }
  // Gives the gradient of each input that context.needs(). Runs without recording.
  virtual void backward(BackwardContext& context) = 0;
  // Does the same by recorded operations, with recording on. By default throws kNotImplemented.
  virtual void backward_recorded(BackwardContext& context);
  // For the engine: calls backward_recorded(); the saved tensors have their history meanwhile.
  void run_recorded(BackwardContext& context);

  // Saves a tensor for backward (an input, an output or a temporary), without its history. It may
  // be undefined. Call it after the node has its edges, and for an output after it is attached.
  void save(const Tensor& tensor);
  // save() for the values of an input or output, in its shape and dtype, whatever the history of
  // `tensor` is.
  void save_input(std::size_t input, const Tensor& tensor);
  void save_output(const Tensor& tensor, std::size_t output = 0);
  // save() for a tensor that backward_recorded() takes as a constant, or gives a history itself.
  void save_constant(const Tensor& tensor);
  // The i-th saved tensor. Throws kInvalidArgument if it was changed in place since.
  const Tensor& saved(std::size_t i) const;

  std::span<const Edge> edges() const noexcept;
  std::uint32_t output_count() const noexcept { return output_count_; }
  std::uint64_t sequence() const noexcept { return sequence_; }
  bool is_leaf() const noexcept { return leaf_; }
  bool is_released() const noexcept { return released_; }
  virtual void release_saved() noexcept;

  // A hook is called with the gradient of an output before the node uses it. A defined tensor that
  // it returns, of the same shape and dtype, replaces the gradient; an undefined one keeps it.
  // Hooks run in the order in which they were added.
  using Hook = std::function<Tensor(const Tensor&)>;
  HookHandle add_hook(std::uint32_t output_nr, Hook hook);
  struct Hooks;
  // The hooks of an output, which a tensor keeps if it becomes a leaf; null if there are none.
  std::shared_ptr<Hooks> hooks_of(std::uint32_t output_nr) const;
  void set_hooks(std::uint32_t output_nr, std::shared_ptr<Hooks> hooks);
  // Makes backward passes add an output's gradient, as its hooks return it, to the gradient of
  // `holder`, as long as `holder` has another owner.
  void retain_grad(std::uint32_t output_nr, Ref<LeafNode> holder);
  // Undoes retain_grad() of an output.
  void forget_retained(std::uint32_t output_nr);
  // Whether an output has a hook or a retained gradient.
  bool has_hooks() const noexcept { return extras_ != nullptr && extras_->sees_gradients(); }
  void run_hooks(std::span<Tensor> gradients);

  // The call stack of the operation; null if it was not recorded in anomaly mode.
  const detail::Backtrace* forward_call() const noexcept;

  // Used by record().
  void set_output_count(std::uint32_t count) noexcept { output_count_ = count; }
  void reserve_edges(std::size_t count);
  void add_edge(Edge edge);

  static void operator delete(Node* node, std::destroying_delete_t) noexcept;

 protected:
  // What a saved tensor is to the node. kOther: the result of some other recorded operation.
  enum class Origin : std::uint8_t { kConstant, kInput, kOutput, kOther };
  // A saved tensor, and its version, which check_saved() compares to find a write in place.
  struct Saved {
    Tensor tensor;
    std::uint32_t version = 0;
    std::uint16_t number = 0;  // of the input or output
    Origin origin = Origin::kConstant;
  };
  Saved saved_as(const Tensor& tensor) const;
  static Saved saved_as(const Tensor& tensor, Origin origin, std::size_t number);
  const Tensor& check_saved(const Saved& entry) const;
  // While it lives, these saved tensors of a node have their history. The constructor throws
  // kNotImplemented for one of unknown history.
  class WithHistory {
   public:
    WithHistory(Node& node, std::span<Saved> saved);
    ~WithHistory();
    WithHistory(const WithHistory&) = delete;
    WithHistory& operator=(const WithHistory&) = delete;

   private:
    std::span<Saved> saved_;
    std::vector<Tensor> without_;
  };
  // Throws kNotImplemented, and names the operation.
  [[noreturn]] void refuse_recording() const;
  void mark_released() noexcept { released_ = true; }

  Node();
  explicit Node(std::uint64_t sequence, bool leaf) noexcept;
  ~Node() override;

 private:
  struct NumberedHook;
  struct OutputHooks {
    std::uint32_t output_nr;
    std::shared_ptr<Hooks> hooks;  // shared with handles and leaves, which may outlive the node
  };
  struct Retained {
    std::uint32_t output_nr;
    Ref<LeafNode> holder;
  };
  // Members that few nodes need.
  struct Extras {
    std::vector<OutputHooks> hooks;
    std::vector<Retained> retained;
    std::unique_ptr<const detail::Backtrace> forward_call;
    bool sees_gradients() const noexcept;
    ~Extras();
  };
  Extras& extras();
  void add_saved(Saved entry);
  static constexpr std::size_t kInlineEdges = 4;

  std::uint64_t sequence_;
  std::uint32_t output_count_ = 1;
  std::uint32_t edge_count_ = 0;
  std::uint8_t saved_count_ = 0;
  bool leaf_ = false;
  bool released_ = false;
  std::array<Edge, kInlineEdges> inline_edges_;
  std::unique_ptr<Edge[]> many_edges_;
  std::array<Saved, kMaxSaved> saved_;
  std::unique_ptr<Extras> extras_;
  const char* grad_fn_name_ = nullptr;
  Node* next_dead_ = nullptr;
};

// A node whose backward() is made of recorded operations only.
class ComposedNode : public Node {
 public:
  void backward_recorded(BackwardContext& context) final { backward(context); }
};

// The memory in which a node may compute a leaf's gradient.
struct GradTarget {
  Tensor memory;            // undefined: compute anywhere and call give()
  bool accumulate = false;  // add to its contents; otherwise overwrite them
};

// The interface of the engine for a node's backward().
class BackwardContext {
 public:
  // The gradient of an output; undefined if no gradient flowed back to it. A node with one output
  // is only called with a defined gradient.
  const Tensor& grad_output(std::size_t output = 0) const { return gradients_[output]; }
  // Moves the gradient out. If is_exclusive(), the node may overwrite it and pass it on with
  // give().
  Tensor take_grad_output(std::size_t output = 0) { return std::move(gradients_[output]); }
  // Whether this input needs a gradient.
  bool needs(std::size_t input) const noexcept {
    const Edge& edge = node_.edges()[input];
    return edge.node && (!filtered_ || leads_to_asked(edge));
  }
  // Passes on the gradient of an input, of the input's shape and dtype. Call it once for each
  // input.
  void give(std::size_t input, Tensor gradient);
  // The node that made an input, if the running node is its only user and nothing else (a hook, for
  // example) sees the gradient on its way; otherwise null. The gradient given for the input then
  // goes to that node alone, so an operation may fuse a part of its producer's backward into its
  // own.
  Node* only_producer(std::size_t input) const noexcept;
  // For large gradients of leaves: if `memory` is defined, a node may compute there (the input's
  // shape and dtype, any strides) and call gave_in_target() instead of give(). If this is the last
  // contribution, on_grad_ready() callbacks run inside gave_in_target(); so compute leaves first
  // and do not touch that memory again.
  GradTarget target(std::size_t input) const;
  void gave_in_target(std::size_t input);

 private:
  friend class Engine;
  BackwardContext(Node& node, std::span<Tensor> gradients, class Engine& engine,
                  bool filtered) noexcept
      : node_(node), gradients_(gradients), engine_(engine), filtered_(filtered) {}
  bool leads_to_asked(const Edge& edge) const noexcept;

  Node& node_;
  std::span<Tensor> gradients_;
  class Engine& engine_;
  bool filtered_;  // true in autograd::grad(), which computes only some gradients
};

// True if no other tensor or view refers to this tensor or its storage (a view's own base does not
// count), so that no other tensor sees a write.
bool is_exclusive(const Tensor& tensor) noexcept;

}  // namespace dl::autograd
