#include "core/kernels/cuda/cudnn/graph.h"

#include <algorithm>
#include <utility>

#include "core/kernels/cuda/runtime/errors.h"

namespace dl::kernels::cuda::dnn {
namespace {

constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;
constexpr std::size_t kMostProposals = 16;
constexpr std::int64_t kAlignment = 16;

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    DL_CUDNN_CHECK(cudnnBackendCreateDescriptor(type, &made));
    owned_ = std::shared_ptr<void>(made, [](void* gone) { cudnnBackendDestroyDescriptor(gone); });
  }
  cudnnBackendDescriptor_t get() const noexcept { return owned_.get(); }
  const std::shared_ptr<void>& owned() const noexcept { return owned_; }

  template <typename T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::span<const T> values) const {
    DL_CUDNN_CHECK(cudnnBackendSetAttribute(
        get(), name, type, static_cast<std::int64_t>(values.size()), values.data()));
  }
  template <typename T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const T& value) const {
    set(name, type, std::span<const T>(&value, 1));
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) const {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.get());
  }
  // Up to values.size() of them; returns how many there are.
  template <typename T>
  std::size_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::span<T> values) const {
    std::int64_t count = 0;
    DL_CUDNN_CHECK(cudnnBackendGetAttribute(
        get(), name, type, static_cast<std::int64_t>(values.size()), &count, values.data()));
    return std::min(values.size(), static_cast<std::size_t>(count));
  }
  const Descriptor& finalize() const {
    DL_CUDNN_CHECK(cudnnBackendFinalize(get()));
    return *this;
  }

 private:
  std::shared_ptr<void> owned_;
};

Descriptor tensor_of(const Graph::Tensor& tensor, std::int64_t number) {
  const Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, number);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, tensor.type);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
           std::span<const std::int64_t>(tensor.layout.sizes));
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
           std::span<const std::int64_t>(tensor.layout.steps));
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN,
           !tensor.in_memory && !tensor.is_constant);
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, tensor.is_constant);
  return made.finalize();
}

Descriptor operation_of(const Graph::Operation& op, const std::vector<Descriptor>& tensors) {
  const auto input = [&](std::size_t i) -> const Descriptor& { return tensors[op.inputs[i]]; };
  const auto result = [&](std::size_t i) -> const Descriptor& { return tensors[op.outputs[i]]; };
  const Descriptor& output = result(0);
  switch (op.kind) {
    case Graph::Kind::kPointwise: {
      const Descriptor what(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
      what.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
               static_cast<cudnnPointwiseMode_t>(op.mode));
      what.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
      if (op.axis >= 0) what.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, op.axis);
      what.finalize();
      const Descriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
      made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
      made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, input(0));
      if (op.inputs.size() > 1) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, input(1));
      if (op.inputs.size() > 2) made.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, input(2));
      made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, output);
      return made.finalize();
    }
    case Graph::Kind::kProduct: {
      const Descriptor what(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
      what.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
      what.finalize();
      const Descriptor made(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
      made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, what);
      made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, input(0));
      made.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, input(1));
      made.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, output);
      return made.finalize();
    }
    case Graph::Kind::kReduction: {
      const Descriptor what(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
      what.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
               static_cast<cudnnReduceTensorOp_t>(op.mode));
      what.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
      what.finalize();
      const Descriptor made(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
      made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, what);
      made.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, input(0));
      made.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, output);
      return made.finalize();
    }
    case Graph::Kind::kBatchNorm: {
      const Descriptor made(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
      made.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM);
      made.set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE,
               CUDNN_NORM_FWD_TRAINING);
      made.set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, input(0));
      made.set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, input(1));
      made.set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, input(2));
      made.set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, input(3));
      made.set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, output);
      made.set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, result(1));
      made.set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, result(2));
      if (op.inputs.size() > 4) {
        made.set(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, input(4));
        made.set(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, input(5));
        made.set(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, input(6));
        made.set(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, result(3));
        made.set(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, result(4));
      }
      return made.finalize();
    }
    case Graph::Kind::kBatchNormBackward: {
      const Descriptor made(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
      made.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM);
      made.set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, input(0));
      made.set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, input(1));
      made.set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, input(2));
      made.set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, input(3));
      made.set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, input(4));
      made.set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, output);
      made.set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, result(1));
      made.set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, result(2));
      return made.finalize();
    }
    case Graph::Kind::kReshape:
      break;
  }
  const Descriptor made(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, input(0));
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, output);
  return made.finalize();
}

// cuDNN numbers no tensor 0.
std::int64_t number_of(Graph::Value value) {
  return static_cast<std::int64_t>(value) + 1;
}

Descriptor operation_graph(const Graph& graph, const Target& target) {
  std::vector<Descriptor> tensors;
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    tensors.push_back(tensor_of(graph.tensors()[i], number_of(i)));
  }
  std::vector<Descriptor> operations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Graph::Operation& op : graph.operations()) {
    operations.push_back(operation_of(op, tensors));
    raw.push_back(operations.back().get());
  }
  const Descriptor made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
           std::span<const cudnnBackendDescriptor_t>(raw));
  if (target.handle != nullptr) {
    made.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  }
  return made.finalize();
}

bool is_unsupported(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
}

// Engines with their settings, best first.
std::vector<Descriptor> proposals_for(const Descriptor& operations, const Target& target,
                                      cudnnBackendHeurMode_t mode) {
  const Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
#if CUDNN_VERSION >= 90800
  if (target.properties != nullptr) {
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                   target.properties);
  }
#endif
  const cudnnStatus_t status = cudnnBackendFinalize(heuristics.get());
  if (is_unsupported(status)) return {};
  DL_CUDNN_CHECK(status);
  std::vector<Descriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::size_t i = 0; i < kMostProposals; ++i) {
    found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(found.back().get());
  }
  found.erase(found.begin() + static_cast<std::ptrdiff_t>(
                                  heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(raw))),
              found.end());
  return found;
}

std::size_t workspace_of(const Descriptor& plan) {
  std::int64_t bytes = 0;
  plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, std::span(&bytes, 1));
  return static_cast<std::size_t>(bytes);
}

bool is_nondeterministic(const Descriptor& proposal) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  proposal.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(&raw, 1));
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  notes.resize(
      engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::span(notes)));
  return std::ranges::find(notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != notes.end();
}

}  // namespace

Layout Layout::row_major(const Sizes& sizes) noexcept {
  return {.sizes = sizes,
          .steps = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}};
}

Layout Layout::of_channels(std::int64_t channels) noexcept {
  return {.sizes = {1, channels, 1, 1}, .steps = {channels, 1, channels, channels}};
}

Layout Layout::turned() const noexcept {
  Layout result = *this;
  std::swap(result.sizes[2], result.sizes[3]);
  std::swap(result.steps[2], result.steps[3]);
  return result;
}

Graph::Value Graph::add(Tensor tensor) {
  tensors_.push_back(tensor);
  return tensors_.size() - 1;
}

Graph::Value Graph::add(Kind kind, int mode, std::int64_t axis, std::vector<Value> inputs,
                        Tensor output) {
  const Value result = add(output);
  operations_.push_back({kind, mode, axis, std::move(inputs), {result}});
  return result;
}

Graph::Value Graph::like(Value value) {
  return add(Tensor{.layout = tensors_[value].layout});
}

Graph::Value Graph::read(cudnnDataType_t type, const Layout& layout) {
  in_memory_.push_back(add(Tensor{.type = type, .layout = layout, .in_memory = true}));
  return in_memory_.back();
}

Graph::Value Graph::constant(float value) {
  return add(
      Tensor{.layout = Layout::row_major({1, 1, 1, 1}), .is_constant = true, .constant = value});
}

Graph::Value Graph::pointwise(cudnnPointwiseMode_t mode, std::vector<Value> inputs) {
  const Layout layout = Layout::row_major(tensors_[inputs[0]].layout.sizes);
  return add(Kind::kPointwise, mode, -1, std::move(inputs), {.layout = layout});
}

Graph::Value Graph::index(Value like, std::int64_t dim) {
  return add(Kind::kPointwise, CUDNN_POINTWISE_GEN_INDEX, dim, {like},
             {.type = CUDNN_DATA_INT32, .layout = Layout::row_major(tensors_[like].layout.sizes)});
}

Graph::Value Graph::product(Value left, Value right) {
  Sizes sizes = tensors_[left].layout.sizes;
  sizes[3] = tensors_[right].layout.sizes[3];
  return add(Kind::kProduct, 0, -1, {left, right}, {.layout = Layout::row_major(sizes)});
}

Graph::Value Graph::reduce(cudnnReduceTensorOp_t op, Value of) {
  Sizes sizes = tensors_[of].layout.sizes;
  sizes[3] = 1;
  return add(Kind::kReduction, op, -1, {of}, {.layout = Layout::row_major(sizes)});
}

Graph::Value Graph::reshape(Value of, const Layout& layout) {
  return add(Kind::kReshape, 0, -1, {of}, {.layout = layout});
}

Graph::BatchNormResults Graph::batch_norm(const BatchNorm& in) {
  Operation op{Kind::kBatchNorm, 0, -1, {in.x, in.weight, in.bias, in.eps}, {}};
  BatchNormResults out{like(in.x), like(in.weight), like(in.weight), 0, 0};
  op.outputs = {out.y, out.mean, out.scale};
  if (in.running) {
    out.running_mean = like(in.weight);
    out.running_variance = like(in.weight);
    for (const Value value : {in.running->momentum, in.running->mean, in.running->variance}) {
      op.inputs.push_back(value);
    }
    op.outputs.push_back(out.running_mean);
    op.outputs.push_back(out.running_variance);
  }
  operations_.push_back(std::move(op));
  return out;
}

Graph::BatchNormGradients Graph::batch_norm_backward(Value dy, Value x, Value weight, Value mean,
                                                     Value scale) {
  const BatchNormGradients out{like(x), like(weight), like(weight)};
  operations_.push_back({Kind::kBatchNormBackward,
                         0,
                         -1,
                         {dy, x, weight, mean, scale},
                         {out.dx, out.dweight, out.dbias}});
  return out;
}

void Graph::write(Value value, cudnnDataType_t type, const Layout& layout) {
  Tensor& tensor = tensors_[value];
  tensor.type = type;
  tensor.layout = layout;
  tensor.in_memory = true;
  in_memory_.push_back(value);
}

Plan::Plan(const Graph& graph, std::vector<std::shared_ptr<void>> kept, std::size_t workspace)
    : kept_(std::move(kept)), workspace_(workspace) {
  for (const Graph::Value value : graph.in_memory()) numbers_.push_back(number_of(value));
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    if (!graph.tensors()[i].is_constant) continue;
    numbers_.push_back(number_of(i));
    constants_.push_back(graph.tensors()[i].constant);
  }
}

bool Plan::run(cudnnHandle_t handle, std::span<void* const> memory, void* workspace,
               std::span<const float> constants) {
  std::vector<void*> pointers(memory.begin(), memory.end());
  if (constants.empty()) constants = constants_;
  // cuDNN reads the constants during the call, and writes none.
  for (const float& constant : constants) pointers.push_back(const_cast<float*>(&constant));
  const Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
           std::span<const std::int64_t>(numbers_));
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           std::span<void* const>(pointers));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize();
  const cudnnStatus_t status = cudnnBackendExecute(handle, kept_.back().get(), pack.get());
  is_refused_ = is_unsupported(status);
  if (is_refused_) return false;
  if (status != CUDNN_STATUS_SUCCESS) dl::cuda::throw_cudnn(status, "cudnnBackendExecute");
  return true;
}

std::string Plan::text() const {
  std::int64_t count = 0;
  const auto ask = [&](std::int64_t room, char* text) {
    return cudnnBackendGetAttribute(kept_.back().get(),
                                    CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                    room, &count, text);
  };
  if (ask(0, nullptr) != CUDNN_STATUS_SUCCESS) return {};
  std::string text(static_cast<std::size_t>(count), '\0');
  if (ask(count, text.data()) != CUDNN_STATUS_SUCCESS) return {};
  return text;
}

Plan loaded_plan(const Graph& graph, std::string_view text, const Target& target) {
  const Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (target.handle != nullptr) {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  }
#if CUDNN_VERSION >= 90800
  if (target.properties != nullptr) {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             target.properties);
  }
#endif
  if (cudnnBackendSetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                               CUDNN_TYPE_CHAR, static_cast<std::int64_t>(text.size()),
                               text.data()) != CUDNN_STATUS_SUCCESS ||
      cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  return {graph, {plan.owned()}, workspace_of(plan)};
}

std::string text_of(const Graph& graph) {
  std::string text;
  const auto add = [&text](std::int64_t number) { text += ' ' + std::to_string(number); };
  for (const Graph::Tensor& tensor : graph.tensors()) {
    text += " tensor";
    add(tensor.type);
    for (const std::int64_t size : tensor.layout.sizes) add(size);
    for (const std::int64_t step : tensor.layout.steps) add(step);
    add(tensor.in_memory ? 1 : tensor.is_constant ? 2 : 0);
  }
  for (const Graph::Operation& op : graph.operations()) {
    text += " operation";
    add(static_cast<std::int64_t>(op.kind));
    add(op.mode);
    add(op.axis);
    for (const Graph::Value input : op.inputs) add(static_cast<std::int64_t>(input));
    text += " to";
    for (const Graph::Value output : op.outputs) add(static_cast<std::int64_t>(output));
  }
  return text;
}

Plan plan_of(const Graph& graph, const Target& target) {
  const Descriptor operations = operation_graph(graph, target);
  cudnnStatus_t refused = CUDNN_STATUS_SUCCESS;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const Descriptor& proposal : proposals_for(operations, target, mode)) {
      if (target.deterministic && is_nondeterministic(proposal)) continue;
      const Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal);
      if (target.handle != nullptr) {
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
      }
      const cudnnStatus_t status = cudnnBackendFinalize(plan.get());
      if (status != CUDNN_STATUS_SUCCESS) {
        if (!is_unsupported(status)) refused = status;
        continue;
      }
      const std::size_t workspace = workspace_of(plan);
      if (workspace > kMostWorkspace) continue;
      return {graph, {operations.owned(), proposal.owned(), plan.owned()}, workspace};
    }
  }
  if (refused != CUDNN_STATUS_SUCCESS) dl::cuda::throw_cudnn(refused, "cudnnBackendFinalize");
  return {};
}

}  // namespace dl::kernels::cuda::dnn
