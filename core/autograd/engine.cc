#include "core/autograd/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/autocast/autocast.h"
#include "core/autograd/anomaly.h"
#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/leaf.h"
#include "core/autograd/graph/node.h"
#include "core/autograd/graph/workspace.h"
#include "core/autograd/record.h"
#include "core/profiler/span.h"
#include "core/tape/recorder.h"
#include "core/tensor/factories.h"

namespace dl {

using autograd::Engine;
using autograd::Workspace;

namespace {

thread_local Workspace spare_workspace;  // of the thread's last pass

constinit std::atomic<std::uint64_t> last_pass{0};

}  // namespace

class autograd::Engine {
  // Whether discover() throws for a node that an earlier pass has freed, or accepts it.
  enum class Released : std::uint8_t { kRefused, kTaken };

 public:
  // kIntoLeaves: leaves accumulate their gradients. kReturned: the gradients that capture() asks
  // for are returned to the caller, and leaves get none.
  enum class Pass : std::uint8_t { kIntoLeaves, kReturned };

  // `what`: the function's name in error texts.
  Engine(std::string_view what, Pass pass, BackwardOptions options)
      : what_(what),
        is_filtered_(pass == Pass::kReturned),
        options_(options),
        work_(std::move(spare_workspace)),
        outer_(std::exchange(current, this)),
        pass_(++last_pass) {
    work_.clear();
  }
  ~Engine() {
    current = outer_;
    work_.clear();
    spare_workspace = std::move(work_);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void add_root(const Tensor& root, Tensor gradient) {
    roots_.push_back(gradient_edge(root));
    // A filtered pass accepts freed nodes here: find_needed() refuses those that have to run.
    discover(roots_.back().node.get(), is_filtered_ ? Released::kTaken : Released::kRefused);
    collect(roots_.back(), std::move(gradient));
  }

  // Sets the inputs whose gradients the pass returns, in this order. Call it after add_root().
  void capture(std::span<const Tensor> inputs) {
    for (const Tensor& input : inputs) {
      captures_.push_back({gradient_edge(input), Tensor()});
      const Node* const node = captures_.back().edge.node.get();
      if (work_.index.contains(node)) work_.states[work_.index.at(node)].captured = true;
    }
    find_needed();
  }
  std::vector<Capture> take_captures() noexcept { return std::move(captures_); }

  void run() {
    const AutocastOff plain;  // gradients are computed in the dtypes of the forward pass
    for (std::uint32_t i = 0; i < work_.states.size(); ++i) {
      if (work_.states[i].pending == 0 && is_asked(work_.states[i])) push_ready(i);
    }
    run_hooks_of_unasked_root();
    while (!work_.ready.empty()) {
      std::pop_heap(work_.ready.begin(), work_.ready.end());
      const std::uint32_t number = work_.ready.back().number;
      work_.ready.pop_back();
      run_node(number);
    }
    tape::Recorder* const recorder = tape::Recorder::current();
    recorder != nullptr ? record_end(*recorder) : run_at_end();
  }
  void run_at_end() {
    for (std::size_t i = 0; i < at_end_.size(); ++i) {
      const std::function<void()> callback = std::move(at_end_[i]);  // it may append callbacks
      callback();
    }
  }

  // In a tape's run, kernels stand for the nodes; an engine without any serves leaves' callbacks.
  void record_begin(tape::Recorder& recorder) {
    const auto pass = replayed_ = std::make_shared<std::unique_ptr<Engine>>();
    const auto begin = [pass] { pass->reset(new Engine("backward", Pass::kIntoLeaves, {})); };
    recorder.did("backward", begin, [pass](const std::exception_ptr&) { pass->reset(); });
  }
  void record_end(tape::Recorder& recorder) {
    const auto end = [pass = replayed_] { (*pass)->run_at_end(), pass->reset(); };
    if (replayed_) recorder.did("backward ends", end);  // else it is autograd::grad()
    recorder.aside([this] { run_at_end(); });
  }

  // Tells each leaf that the pass used, or would have used, that its gradient will not come. The
  // pass may have ended before all of `roots` were added, or in the middle of discover().
  void fail(std::span<const Tensor> roots, const std::exception_ptr& error) noexcept {
    work_.clear();
    try {
      for (const Edge& root : roots_) discover(root.node.get(), Released::kTaken);
      for (const Tensor& root : roots.subspan(roots_.size())) {
        if (!needs_grad(root)) continue;
        // A view may not have taken its base's history yet.
        for (const TensorImpl* each = root.impl(); each != nullptr; each = each->base.get()) {
          auto* const node = static_cast<Node*>(each->node ? each->node.get() : each->leaf.get());
          if (node != nullptr) discover(node, Released::kTaken);
        }
      }
    } catch (...) {  // no memory: notify only the leaves found so far
    }
    for (const NodeState& state : work_.states) {
      if (!state.node->is_leaf()) continue;
      try {
        static_cast<const LeafNode&>(*state.node).run_failed(error);
      } catch (...) {  // the caller must get `error`, not this exception
      }
    }
  }

  std::uint64_t pass() const noexcept { return pass_; }
  bool is_inside_use_of(const LeafNode& leaf) const noexcept {
    for (Engine* outer = outer_; outer != nullptr; outer = outer->outer_) {
      if (!outer->is_filtered_ && outer->work_.index.contains(&leaf)) return true;
    }
    return false;
  }

  void collect(const Edge& edge, Tensor gradient) {
    if (!gradient.defined()) return;
    const NodeState& state = work_.states[work_.index.at(edge.node.get())];
    Tensor& slot = work_.slots[state.first_slot + edge.output_nr];
    if (!slot.defined()) {
      slot = std::move(gradient);
    } else if (options_.create_graph) {
      slot = slot.add(gradient);
    } else if (is_exclusive(slot) && is_dense(slot.sizes(), slot.strides())) {
      slot.add_(gradient);
    } else if (is_exclusive(gradient) && is_dense(gradient.sizes(), gradient.strides())) {
      gradient.add_(slot);
      slot = std::move(gradient);
    } else {
      slot = slot.clone();  // dense
      slot.add_(gradient);
    }
  }

  // The running node has computed a leaf's gradient in its target. If the leaf has no other use
  // left, this gradient is final, and an all-reduce of it need not wait for the rest of the node's
  // work.
  void wrote_in_target(LeafNode& leaf) {
    leaf.mark_written();
    NodeState& state = work_.states[work_.index.at(&leaf)];
    if (state.pending != 1 || work_.slots[state.first_slot].defined()) return;
    state.announced = true;
    leaf.run_ready();
  }

  // See BackwardContext::only_producer(); the edge is one of the running node.
  Node* only_producer(const Edge& edge) noexcept {
    Node* const node = edge.node.get();
    if (node == nullptr || node->is_leaf() || node->has_hooks() || node->output_count() != 1 ||
        options_.create_graph) {
      return nullptr;
    }
    const NodeState& state = work_.states[work_.index.at(node)];
    const bool only = state.pending == 1 && !work_.slots[state.first_slot].defined();
    return only && !state.captured ? node : nullptr;
  }

  // Whether a gradient along this edge is itself a result, or is needed to compute one.
  bool leads_to_asked(const Edge& edge) noexcept {
    return is_asked(work_.states[work_.index.at(edge.node.get())]);
  }

  // Whether nodes may compute leaves' gradients in target(). Anomaly mode checks them before.
  bool has_targets() const { return !is_filtered_ && !check_nan_ && !options_.create_graph; }

  // In anomaly mode: throws if a gradient of the node's input holds NaN.
  void check_nan(const Node& node, std::size_t input, const Tensor& gradient) const {
    if (!check_nan_ || !gradient.defined()) return;
    const auto count = gradient.detach().isnan().sum().item<std::int64_t>();
    DL_CHECK(count == 0, kInvalidArgument,
             "{}: backward made NaN in the gradient of input {}, in {} of {} elements",
             node.grad_fn_name(), input, count, gradient.numel());
  }

  void at_end(std::function<void()> callback) { at_end_.push_back(std::move(callback)); }

  static constinit thread_local Engine* current;

 private:
  void check_not_released(const Node& node) const {
    DL_CHECK(!node.is_released(), kInvalidArgument,
             "{}: the graph was freed by an earlier backward pass, at {}; give the earlier "
             "one retain_graph = true, or compute the result again",
             what_, node.name());
  }

  std::uint32_t number_of(Node* node, Released released) {
    const auto [number, is_new] =
        work_.index.insert(node, static_cast<std::uint32_t>(work_.states.size()));
    if (is_new) {
      if (released == Released::kRefused) check_not_released(*node);
      work_.states.push_back({node, static_cast<std::uint32_t>(work_.slots.size()), 0});
      work_.slots.resize(work_.slots.size() + node->output_count());
      work_.unvisited.push_back(number);
    }
    return number;
  }

  // Numbers all nodes that can be reached from `root`, and counts the uses of each.
  void discover(Node* root, Released released) {
    number_of(root, released);
    while (!work_.unvisited.empty()) {
      const std::uint32_t number = work_.unvisited.back();
      work_.unvisited.pop_back();
      const Node* const node = work_.states[number].node;
      for (const Edge& edge : node->edges()) {
        if (edge.node) ++work_.states[number_of(edge.node.get(), released)].pending;
      }
    }
  }

  bool is_asked(const NodeState& state) const noexcept {
    return !is_filtered_ || state.captured || state.needed;
  }

  // A node is needed if one of its edges leads to a captured or needed node. Sorts the nodes
  // topologically, users before producers, and then visits them in reverse.
  void find_needed() {
    std::vector<std::uint32_t> pending;
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < work_.states.size(); ++i) {
      pending.push_back(work_.states[i].pending);
      if (pending.back() == 0) order.push_back(i);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const Edge& edge : work_.states[order[i]].node->edges()) {
        if (!edge.node) continue;
        const std::uint32_t next = work_.index.at(edge.node.get());
        if (--pending[next] == 0) order.push_back(next);
      }
    }
    for (std::size_t i = order.size(); i-- > 0;) {
      NodeState& state = work_.states[order[i]];
      for (const Edge& edge : state.node->edges()) {
        state.needed = state.needed || (edge.node && leads_to_asked(edge));
      }
      if (state.needed) check_not_released(*state.node);
    }
  }

  // As in PyTorch, the hooks of a single root run even if no requested input is reached through it.
  void run_hooks_of_unasked_root() {
    if (roots_.size() != 1) return;
    const NodeState& root = work_.states[work_.index.at(roots_[0].node.get())];
    if (is_asked(root)) return;
    root.node->run_hooks({work_.slots.data() + root.first_slot, root.node->output_count()});
  }

  void push_ready(std::uint32_t number) {
    work_.ready.push_back({work_.states[number].node->sequence(), number});
    std::push_heap(work_.ready.begin(), work_.ready.end());
  }

  void run_node(std::uint32_t number) {
    Node& node = *work_.states[number].node;
    if (profiler::is_recording()) [[unlikely]] {
      const profiler::Span span(node.grad_fn_name(), profiler::Category::kBackward);
      return watch_node(number, node);
    }
    watch_node(number, node);
  }

  void watch_node(std::uint32_t number, Node& node) {
    if (!reports_) [[likely]]
      return use_node(number, node);
    try {
      use_node(number, node);
    } catch (...) {
      report(node);
      throw;
    }
  }

  // In anomaly mode: prints to stderr the call stack of the operation that failed. Does not throw:
  // the caller has to see the operation's own exception.
  static void report(const Node& node) noexcept {
    try {
      const detail::Backtrace* const calls = node.forward_call();
      const std::string text = fmt::format(
          "Error detected in {}. {}\n{}", node.grad_fn_name(),
          calls != nullptr ? "Its forward call, the innermost function first:"
                           : "Its forward call was not in anomaly mode, so it is not known.",
          calls != nullptr ? calls->str() : "");
      std::fputs(text.c_str(), stderr);
    } catch (...) {  // there is no memory for the text
    }
  }

  void use_node(std::uint32_t number, Node& node) {
    const std::span<Tensor> gradients(work_.slots.data() + work_.states[number].first_slot,
                                      node.output_count());
    if (work_.states[number].captured && !use_captured(number, gradients)) return;
    node.run_hooks(gradients);
    const bool reached = std::any_of(gradients.begin(), gradients.end(),
                                     [](const Tensor& gradient) { return gradient.defined(); });
    if (reached) {
      BackwardContext context(node, gradients, *this, is_filtered_);
      options_.create_graph ? node.run_recorded(context) : node.backward(context);
      for (Tensor& gradient : gradients) gradient = Tensor();
    }
    if (node.is_leaf()) {
      if (!work_.states[number].announced) static_cast<LeafNode&>(node).run_ready();
      return;
    }
    if (!retains_) node.release_saved();
    for (const Edge& edge : node.edges()) {
      if (!edge.node) continue;
      NodeState& next = work_.states[work_.index.at(edge.node.get())];
      if (--next.pending == 0 && is_asked(next)) push_ready(work_.index.at(edge.node.get()));
    }
  }

  // Stores the gradients of a captured node's outputs as results: before the node's hooks if the
  // node has to run, else after them, as PyTorch does. Returns whether the node has to run.
  bool use_captured(std::uint32_t number, std::span<Tensor> gradients) {
    Node& node = *work_.states[number].node;
    const bool needed = work_.states[number].needed;
    if (!needed) node.run_hooks(gradients);
    for (Capture& each : captures_) {
      if (each.edge.node.get() == &node) each.gradient = gradients[each.edge.output_nr];
    }
    if (!needed) std::ranges::fill(gradients, Tensor());
    return needed;
  }

  std::string_view what_;
  bool is_filtered_;
  BackwardOptions options_;
  bool retains_ = options_.retain_graph.value_or(options_.create_graph);
  bool reports_ = autograd::is_anomaly_enabled();
  bool check_nan_ = autograd::is_anomaly_check_nan_enabled();
  std::vector<Capture> captures_;
  Workspace work_;
  std::vector<Edge> roots_;
  Engine* outer_;
  std::uint64_t pass_;
  std::vector<std::function<void()>> at_end_;
  std::shared_ptr<std::unique_ptr<Engine>> replayed_;  // if this thread records
};

constinit thread_local Engine* Engine::current = nullptr;

void BackwardContext::give(std::size_t input, Tensor gradient) {
  const Edge& edge = node_.edges()[input];
  if (!needs(input)) return;
  engine_.check_nan(node_, input, gradient);
  engine_.collect(edge, std::move(gradient));
}

bool BackwardContext::leads_to_asked(const Edge& edge) const noexcept {
  return engine_.leads_to_asked(edge);
}

Node* BackwardContext::only_producer(std::size_t input) const noexcept {
  return engine_.only_producer(node_.edges()[input]);
}

GradTarget BackwardContext::target(std::size_t input) const {
  const Edge& edge = node_.edges()[input];
  if (!engine_.has_targets() || !edge.node || !edge.node->is_leaf()) return {};
  return static_cast<const LeafNode&>(*edge.node).target();
}

void BackwardContext::gave_in_target(std::size_t input) {
  auto& leaf = static_cast<LeafNode&>(*node_.edges()[input].node);
  engine_.wrote_in_target(leaf);
}

void on_backward_end(std::function<void()> callback) {
  DL_CHECK(Engine::current != nullptr, kInvalidArgument,
           "on_backward_end: no backward pass runs on this thread");
  DL_CHECK(callback != nullptr, kInvalidArgument, "on_backward_end: there is no callback");
  Engine::current->at_end(std::move(callback));
}

std::uint64_t backward_pass() noexcept {
  return Engine::current == nullptr ? 0 : Engine::current->pass();
}

bool enclosing_backward_uses(const Tensor& leaf) noexcept {
  if (Engine::current == nullptr || !leaf.defined() || !leaf.impl()->leaf) return false;
  return Engine::current->is_inside_use_of(static_cast<const LeafNode&>(*leaf.impl()->leaf));
}

namespace {

Tensor root_gradient(std::string_view what, const Tensor& root, const Tensor& given) {
  DL_CHECK(root.defined(), kInvalidArgument, "{}: the tensor is undefined", what);
  DL_CHECK(root.requires_grad(), kInvalidArgument,
           "{}: the tensor requires no gradients: nothing it was computed from does, or it was "
           "computed under a NoGradGuard",
           what);
  if (!given.defined()) {
    DL_CHECK(root.numel() == 1, kShape,
             "{}: the gradient may be left out for a tensor of one element only, the shape is "
             "{}; sum() or mean() it, or give a gradient",
             what, root.sizes().str());
    return ones_like(root);
  }
  DL_CHECK(given.sizes() == root.sizes(), kShape,
           "{}: a gradient of shape {} for a tensor of shape {}", what, given.sizes().str(),
           root.sizes().str());
  DL_CHECK(given.dtype() == root.dtype(), kDType,
           "{}: a gradient of dtype {} for a tensor of dtype {}", what, name_of(given.dtype()),
           name_of(root.dtype()));
  return is_grad_enabled() || !given.requires_grad() ? given : given.detach();
}

void add_roots(Engine& engine, std::string_view what, std::span<const Tensor> roots,
               std::span<const Tensor> gradients) {
  DL_CHECK(gradients.empty() || gradients.size() == roots.size(), kInvalidArgument,
           "{}: {} gradients for {} tensors", what, gradients.size(), roots.size());
  for (std::size_t i = 0; i < roots.size(); ++i) {
    engine.add_root(roots[i],
                    root_gradient(what, roots[i], gradients.empty() ? Tensor() : gradients[i]));
  }
}

}  // namespace

void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients,
              BackwardOptions options) {
  constexpr std::string_view kWhat = "backward";
  const AutoGradMode recording(options.create_graph);
  Engine engine(kWhat, Engine::Pass::kIntoLeaves, options);
  if (tape::Recorder* const recorder = tape::Recorder::current()) engine.record_begin(*recorder);
  try {
    add_roots(engine, kWhat, roots, gradients);
    engine.run();
  } catch (...) {
    engine.fail(roots, std::current_exception());
    throw;
  }
}

void Tensor::backward(const Tensor& gradient, BackwardOptions options) const {
  dl::backward({this, 1}, {&gradient, 1}, options);
}

std::vector<Tensor> autograd::grad(const std::vector<Tensor>& outputs,
                                   const std::vector<Tensor>& inputs, const GradOptions& options) {
  constexpr std::string_view kWhat = "autograd::grad";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    DL_CHECK(inputs[i].defined(), kInvalidArgument, "{}: input {} is undefined", kWhat, i);
    DL_CHECK(inputs[i].requires_grad(), kInvalidArgument,
             "{}: input {} requires no gradients, so nothing was recorded of it", kWhat, i);
  }
  const AutoGradMode recording(options.create_graph);
  Engine engine(kWhat, Engine::Pass::kReturned,
                {.retain_graph = options.retain_graph, .create_graph = options.create_graph});
  add_roots(engine, kWhat, outputs, options.grad_outputs);
  engine.capture(inputs);
  engine.run();
  std::vector<Tensor> results;
  for (Capture& each : engine.take_captures()) {
    DL_CHECK(each.gradient.defined() || options.allow_unused, kInvalidArgument,
             "{}: input {} was not used to compute the outputs; with allow_unused = true its "
             "gradient is an undefined tensor",
             kWhat, results.size());
    results.push_back(std::move(each.gradient));
  }
  return results;
}

}  // namespace dl
