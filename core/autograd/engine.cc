#include "core/autograd/engine.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>
#include <vector>

#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/autograd/leaf.h"
#include "core/autograd/node.h"
#include "core/autograd/record.h"
#include "core/tensor/factories.h"

namespace dl {
namespace {

// From nodes to their numbers in this pass: open addressing, emptied in no time by a new stamp.
class NodeIndex {
 public:
  // The number of `node`, and whether it is new.
  std::pair<std::uint32_t, bool> insert(const Node* node, std::uint32_t next) {
    if (2 * (count_ + 1) > entries_.size()) grow();
    Entry& entry = find(node);
    if (entry.stamp == stamp_) return {entry.number, false};
    entry = {node, next, stamp_};
    ++count_;
    return {next, true};
  }
  std::uint32_t at(const Node* node) noexcept { return find(node).number; }
  bool contains(const Node* node) noexcept { return count_ != 0 && find(node).stamp == stamp_; }
  void clear() {
    constexpr std::size_t kKept = 1 << 16;
    if (entries_.size() > kKept || ++stamp_ == 0) {
      entries_ = std::vector<Entry>();
      stamp_ = 1;
    }
    count_ = 0;
  }

 private:
  struct Entry {
    const Node* node = nullptr;
    std::uint32_t number = 0;
    std::uint32_t stamp = 0;
  };

  Entry& find(const Node* node) noexcept {
    const std::size_t mask = entries_.size() - 1;
    std::size_t at = (reinterpret_cast<std::uintptr_t>(node) >> 4) * 0x9e3779b97f4a7c15u >> 20;
    for (;; ++at) {
      Entry& entry = entries_[at & mask];
      if (entry.stamp != stamp_ || entry.node == node) return entry;
    }
  }
  void grow() {
    const std::vector<Entry> old = std::move(entries_);
    entries_ = std::vector<Entry>(std::max<std::size_t>(64, 2 * old.size()));
    for (const Entry& entry : old) {
      if (entry.stamp == stamp_) find(entry.node) = entry;
    }
  }

  std::vector<Entry> entries_;
  std::uint32_t stamp_ = 1;
  std::size_t count_ = 0;
};

struct State {
  Node* node;                // the roots keep the graph alive
  std::uint32_t first_slot;  // of its outputs' gradients
  std::uint32_t pending;     // uses of its outputs that have not run yet
  bool announced = false;    // a leaf whose callbacks ran before its turn
};

struct Ready {
  std::uint64_t sequence;
  std::uint32_t number;
  friend bool operator<(const Ready& a, const Ready& b) noexcept { return a.sequence < b.sequence; }
};

// What a pass works with. Kept for the thread's next pass, so that a small step allocates nothing
// here.
struct Workspace {
  NodeIndex index;
  std::vector<State> states;
  std::vector<Tensor> slots;
  std::vector<Ready> ready;
  std::vector<std::uint32_t> unvisited;

  void clear() {
    index.clear();
    states.clear();
    slots.clear();
    ready.clear();
    unvisited.clear();
  }
};

thread_local Workspace spare_workspace;

constinit std::atomic<std::uint64_t> last_pass{0};

}  // namespace

class Engine {
 public:
  explicit Engine(BackwardOptions options)
      : options_(options),
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
    discover(roots_.back().node.get(), Released::kRefused);
    collect(roots_.back(), std::move(gradient));
  }

  void run() {
    const AutocastOff plain;  // gradients are computed in the dtypes of the forward pass
    for (std::uint32_t i = 0; i < work_.states.size(); ++i) {
      if (work_.states[i].pending == 0) push_ready(i);
    }
    while (!work_.ready.empty()) {
      std::pop_heap(work_.ready.begin(), work_.ready.end());
      const std::uint32_t number = work_.ready.back().number;
      work_.ready.pop_back();
      run_node(number);
    }
    for (std::size_t i = 0; i < at_end_.size(); ++i) {
      const std::function<void()> callback = std::move(at_end_[i]);  // it may append others
      callback();
    }
  }

  // Tells each leaf that the pass used, or would have used, that its gradient will not come. The
  // pass may have ended before all of `roots` were added, or in the middle of discover().
  void fail(std::span<const Tensor> roots, const std::exception_ptr& error) noexcept {
    work_.clear();
    try {
      for (const Edge& root : roots_) discover(root.node.get(), Released::kTaken);
      for (const Tensor& root : roots.subspan(roots_.size())) {
        if (!asks_gradient(root)) continue;
        // A view may not have its base's history yet.
        for (const TensorImpl* each = root.impl(); each != nullptr; each = each->base.get()) {
          auto* const node = static_cast<Node*>(each->node.get());
          if (node != nullptr) discover(node, Released::kTaken);
        }
      }
    } catch (...) {  // there is no memory: only the leaves that are known can be told
    }
    for (const State& state : work_.states) {
      if (!state.node->is_leaf()) continue;
      try {
        static_cast<const LeafNode&>(*state.node).run_failed(error);
      } catch (...) {  // `error` is what the caller has to see
      }
    }
  }

  std::uint64_t pass() const noexcept { return pass_; }
  bool is_inside_use_of(const LeafNode& leaf) const noexcept {
    for (Engine* outer = outer_; outer != nullptr; outer = outer->outer_) {
      if (outer->work_.index.contains(&leaf)) return true;
    }
    return false;
  }

  void collect(const Edge& edge, Tensor gradient) {
    if (!gradient.defined()) return;
    const State& state = work_.states[work_.index.at(edge.node.get())];
    Tensor& slot = work_.slots[state.first_slot + edge.output_nr];
    if (!slot.defined()) {
      slot = std::move(gradient);
    } else if (is_exclusive(slot) && slot.is_contiguous()) {
      slot.add_(gradient);
    } else if (is_exclusive(gradient) && gradient.is_contiguous()) {
      gradient.add_(slot);
      slot = std::move(gradient);
    } else {
      slot = slot.clone(MemoryFormat::kContiguous);
      slot.add_(gradient);
    }
  }

  // The running node has computed a leaf's gradient where it belongs. If no other use of the leaf
  // is to come, that gradient is final, and whoever sends it need not wait for the rest of the
  // node's work.
  void wrote_in_target(LeafNode& leaf) {
    leaf.mark_written();
    State& state = work_.states[work_.index.at(&leaf)];
    if (state.pending != 1 || work_.slots[state.first_slot].defined()) return;
    state.announced = true;
    leaf.run_ready();
  }

  // See BackwardContext::only_producer(); the edge is one of the running node.
  Node* only_producer(const Edge& edge) noexcept {
    Node* const node = edge.node.get();
    if (node == nullptr || node->is_leaf() || node->has_hooks() || node->output_count() != 1) {
      return nullptr;
    }
    const State& state = work_.states[work_.index.at(node)];
    return state.pending == 1 && !work_.slots[state.first_slot].defined() ? node : nullptr;
  }

  void at_end(std::function<void()> callback) { at_end_.push_back(std::move(callback)); }

  static constinit thread_local Engine* current;

 private:
  // What to do with a node that an earlier pass has freed.
  enum class Released : std::uint8_t { kRefused, kTaken };

  std::uint32_t number_of(Node* node, Released released) {
    const auto [number, is_new] =
        work_.index.insert(node, static_cast<std::uint32_t>(work_.states.size()));
    if (is_new) {
      DL_CHECK(released == Released::kTaken || !node->is_released(), kInvalidArgument,
               "backward: the graph was freed by an earlier backward pass, at {}; give the earlier "
               "one retain_graph = true, or compute the result again",
               node->name());
      work_.states.push_back({node, static_cast<std::uint32_t>(work_.slots.size()), 0});
      work_.slots.resize(work_.slots.size() + node->output_count());
      work_.unvisited.push_back(number);
    }
    return number;
  }

  // Numbers all that can be reached from here, and counts the uses of each.
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

  void push_ready(std::uint32_t number) {
    work_.ready.push_back({work_.states[number].node->sequence(), number});
    std::push_heap(work_.ready.begin(), work_.ready.end());
  }

  void run_node(std::uint32_t number) {
    Node& node = *work_.states[number].node;
    const std::span<Tensor> gradients(work_.slots.data() + work_.states[number].first_slot,
                                      node.output_count());
    node.run_hooks(gradients);
    const bool reached = std::any_of(gradients.begin(), gradients.end(),
                                     [](const Tensor& gradient) { return gradient.defined(); });
    if (reached) {
      BackwardContext context(node, gradients, *this);
      node.backward(context);
      for (Tensor& gradient : gradients) gradient = Tensor();
    }
    if (node.is_leaf()) {
      if (!work_.states[number].announced) static_cast<LeafNode&>(node).run_ready();
      return;
    }
    if (!options_.retain_graph) node.release_saved();
    for (const Edge& edge : node.edges()) {
      if (!edge.node) continue;
      const std::uint32_t next = work_.index.at(edge.node.get());
      if (--work_.states[next].pending == 0) push_ready(next);
    }
  }

  BackwardOptions options_;
  Workspace work_;
  std::vector<Edge> roots_;
  Engine* outer_;
  std::uint64_t pass_;
  std::vector<std::function<void()>> at_end_;
};

constinit thread_local Engine* Engine::current = nullptr;

void BackwardContext::give(std::size_t input, Tensor gradient) {
  const Edge& edge = node_.edges()[input];
  if (edge.node) engine_.collect(edge, std::move(gradient));
}

Node* BackwardContext::only_producer(std::size_t input) const noexcept {
  return engine_.only_producer(node_.edges()[input]);
}

GradTarget BackwardContext::target(std::size_t input) const {
  const Edge& edge = node_.edges()[input];
  if (!edge.node || !edge.node->is_leaf()) return {};
  return static_cast<const LeafNode&>(*edge.node).target();
}

void BackwardContext::gave_in_target(std::size_t input) {
  engine_.wrote_in_target(static_cast<LeafNode&>(*node_.edges()[input].node));
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
  if (Engine::current == nullptr || !leaf.defined() || !leaf.impl()->node) return false;
  const auto& node = static_cast<const Node&>(*leaf.impl()->node);
  return node.is_leaf() && Engine::current->is_inside_use_of(static_cast<const LeafNode&>(node));
}

namespace {

Tensor root_gradient(const Tensor& root, const Tensor& given) {
  DL_CHECK(root.defined(), kInvalidArgument, "backward: the tensor is undefined");
  DL_CHECK(
      root.requires_grad(), kInvalidArgument,
      "backward: the tensor requires no gradients: nothing it was computed from does, or it was "
      "computed under a NoGradGuard");
  if (!given.defined()) {
    DL_CHECK(
        root.numel() == 1, kShape,
        "backward: the gradient may be left out for a tensor of one element only, the shape is "
        "{}; sum() or mean() it, or give a gradient",
        root.sizes().str());
    return ones_like(root);
  }
  DL_CHECK(given.sizes() == root.sizes(), kShape,
           "backward: a gradient of shape {} for a tensor of shape {}", given.sizes().str(),
           root.sizes().str());
  DL_CHECK(given.dtype() == root.dtype(), kDType,
           "backward: a gradient of dtype {} for a tensor of dtype {}", name_of(given.dtype()),
           name_of(root.dtype()));
  DL_CHECK(!given.requires_grad(), kInvalidArgument,
           "backward: the gradient requires gradients itself; gradients of gradients are not "
           "supported, detach() it");
  return given;
}

}  // namespace

void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients,
              BackwardOptions options) {
  const NoGradGuard no_grad;
  Engine engine(options);
  try {
    DL_CHECK(gradients.empty() || gradients.size() == roots.size(), kInvalidArgument,
             "backward: {} gradients for {} tensors", gradients.size(), roots.size());
    DL_CHECK(!options.create_graph, kNotImplemented,
             "backward: create_graph is not supported; gradients of gradients are not recorded");
    for (std::size_t i = 0; i < roots.size(); ++i) {
      engine.add_root(roots[i],
                      root_gradient(roots[i], gradients.empty() ? Tensor() : gradients[i]));
    }
    engine.run();
  } catch (...) {
    engine.fail(roots, std::current_exception());
    throw;
  }
}

void Tensor::backward(const Tensor& gradient, BackwardOptions options) const {
  dl::backward({this, 1}, {&gradient, 1}, options);
}

}  // namespace dl
