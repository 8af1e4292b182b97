// cuDNN's graph API: a graph has several operations, which one kernel computes. A plan is made once
// and run often. All tensors have four dimensions.
//
//     dnn::Graph graph;
//     const auto a = graph.read(CUDNN_DATA_HALF, a_layout);
//     const auto b = graph.read(CUDNN_DATA_HALF, b_layout);
//     const auto sum = graph.pointwise(CUDNN_POINTWISE_ADD, {a, b});
//     graph.write(sum, CUDNN_DATA_HALF, out_layout);
//     const dnn::Plan plan = dnn::plan_of(graph, {.handle = handle});
//     void* const memory[] = {a_memory, b_memory, out_memory};
//     plan.run(handle, memory, workspace);
//
// Engines are compiled when they are planned, which takes about a second.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dl::kernels::cuda::dnn {

using Sizes = std::array<std::int64_t, 4>;

// Sizes, and distances in elements.
struct Layout {
  Sizes sizes;
  Sizes steps;

  static Layout row_major(const Sizes& sizes) noexcept;
  // One number for each channel.
  static Layout of_channels(std::int64_t channels) noexcept;
  // The last two dimensions exchanged, over the same memory.
  Layout turned() const noexcept;
};

class Graph {
 public:
  using Value = std::size_t;
  enum class Kind : std::uint8_t {
    kPointwise,
    kProduct,
    kReduction,
    kReshape,
    kBatchNorm,
    kBatchNormBackward
  };

  struct Tensor {
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    Layout layout{};
    bool in_memory = false;  // Plan::run() is given its address
    bool is_constant = false;
    float constant = 0;
  };
  struct Operation {
    Kind kind;
    int mode;                   // of a pointwise operation or a reduction
    std::int64_t axis;          // of an index; else -1
    std::vector<Value> inputs;  // for a selection: value if true, value if false, condition
    std::vector<Value> outputs;
  };

  // Tensors in memory are numbered by the calls of read() and write().
  Value read(cudnnDataType_t type, const Layout& layout);
  Value constant(float value);
  // Values have the sizes of the first input, and are f32 unless write() or as_type() say
  // otherwise.
  Value pointwise(cudnnPointwiseMode_t mode, std::vector<Value> inputs);
  // The position along a dimension, int32.
  Value index(Value like, std::int64_t dim);
  // [.., m, k] [.., k, n]
  Value product(Value left, Value right);
  // Along the last dimension, which becomes 1.
  Value reduce(cudnnReduceTensorOp_t op, Value of);
  Value reshape(Value of, const Layout& layout);

  // Numbers of channels, [1, c, 1, 1] in f32, and single numbers.
  struct BatchNorm {
    Value x, weight, bias, eps;
    struct Running {
      Value momentum, mean, variance;
    };
    std::optional<Running> running;
  };
  struct BatchNormResults {
    Value y, mean, scale;                  // 1 / deviation
    Value running_mean, running_variance;  // if there are running statistics
  };
  // By the statistics of the batch.
  BatchNormResults batch_norm(const BatchNorm& in);
  struct BatchNormGradients {
    Value dx, dweight, dbias;
  };
  BatchNormGradients batch_norm_backward(Value dy, Value x, Value weight, Value mean, Value scale);

  void as_type(Value value, cudnnDataType_t type) { tensors_[value].type = type; }
  void as_layout(Value value, const Layout& layout) { tensors_[value].layout = layout; }
  void write(Value value, cudnnDataType_t type, const Layout& layout);

  const std::vector<Tensor>& tensors() const noexcept { return tensors_; }
  const std::vector<Operation>& operations() const noexcept { return operations_; }
  const std::vector<Value>& in_memory() const noexcept { return in_memory_; }

 private:
  Value add(Tensor tensor);
  Value add(Kind kind, int mode, std::int64_t axis, std::vector<Value> inputs, Tensor output);
  Value like(Value value);

  std::vector<Tensor> tensors_;
  std::vector<Operation> operations_;
  std::vector<Value> in_memory_;
};

// What a plan is to run on: the handle's device; or none, but a device of these properties
// (a descriptor of CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR), which only tells whether there is a plan.
struct Target {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t properties = nullptr;
  bool deterministic = true;  // no engine that calls itself nondeterministic
};

// Destroys nothing while a process ends: see handles.h.
class Plan {
 public:
  Plan() = default;
  // `kept`: descriptors from which the plan was made, with the plan itself as the last.
  Plan(const Graph& graph, std::vector<std::shared_ptr<void>> kept, std::size_t workspace);

  // False if cuDNN has no engine for the graph, or has refused to run it.
  explicit operator bool() const noexcept { return !kept_.empty() && !is_refused_; }
  std::size_t workspace() const noexcept { return workspace_; }
  // `memory`: of the graph's tensors in memory, in their order; `workspace` bytes of scratch
  // memory; `constants`: if not empty, in the place of the graph's, in their order. On the handle's
  // stream. False if cuDNN does not support the plan after all: then the plan is false, too, but it
  // is kept, because a captured graph may have run it before. Throws what else cuDNN reports.
  bool run(cudnnHandle_t handle, std::span<void* const> memory, void* workspace,
           std::span<const float> constants = {});
  // The compiled engine as text, for loaded_plan(); empty if cuDNN does not give it.
  std::string text() const;

 private:
  std::vector<std::shared_ptr<void>> kept_;
  std::size_t workspace_ = 0;
  std::vector<std::int64_t> numbers_;  // of the tensors in memory, then of the constants
  std::vector<float> constants_;
  bool is_refused_ = false;
};

// A plan of such a graph from Plan::text(). Empty if cuDNN does not take the text.
Plan loaded_plan(const Graph& graph, std::string_view text, const Target& target);

// All of a graph, in one line.
std::string text_of(const Graph& graph);

// The first of cuDNN's proposals that it can plan and that needs at most 1 GiB of scratch memory.
// If none is left and cuDNN gave another reason than lack of support, throws the last one.
Plan plan_of(const Graph& graph, const Target& target);

}  // namespace dl::kernels::cuda::dnn
