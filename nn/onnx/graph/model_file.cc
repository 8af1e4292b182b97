#include "nn/onnx/graph/model_file.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/base/system/atomic_file.h"
#include "core/base/version.h"
#include "nn/onnx/graph/wire.h"

namespace dl::onnx {
namespace {

constexpr std::int64_t kIrVersion = 8;
constexpr std::int64_t kOpset = 17;
constexpr std::size_t kSmallest = 1024;   // bytes of a tensor in a file beside the model
constexpr std::uint64_t kAlignment = 64;  // of such tensors

// Numbers of fields, by message.
struct ModelField {
  static constexpr std::uint32_t kIrVersion = 1, kProducer = 2, kProducerVersion = 3, kGraph = 7,
                                 kOpset = 8, kMetadata = 14;
};
struct OpsetField {
  static constexpr std::uint32_t kDomain = 1, kVersion = 2;
};
struct EntryField {
  static constexpr std::uint32_t kKey = 1, kValue = 2;
};
struct GraphField {
  static constexpr std::uint32_t kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
};
struct NodeField {
  static constexpr std::uint32_t kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5;
};
struct AttributeField {
  static constexpr std::uint32_t kName = 1, kFloat = 2, kInt = 3, kString = 4, kTensor = 5,
                                 kInts = 8, kType = 20;
};
struct AttributeType {
  static constexpr std::int64_t kFloat = 1, kInt = 2, kString = 3, kTensor = 4, kInts = 7;
};
struct TensorField {
  static constexpr std::uint32_t kDims = 1, kDType = 2, kName = 8, kRawData = 9, kExternal = 13,
                                 kLocation = 14;
};
struct PortField {
  static constexpr std::uint32_t kName = 1, kType = 2, kTensorType = 1, kElement = 1, kShape = 2,
                                 kDim = 1, kDimValue = 1, kDimParam = 2;
};

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

Message entry(std::string_view key, std::string_view value) {
  Message message;
  message.text(EntryField::kKey, key);
  message.text(EntryField::kValue, value);
  return message;
}

// All but the elements.
Message tensor_head(const Tensor& tensor, std::string_view name) {
  Message message;
  for (const std::int64_t size : tensor.sizes()) message.number(TensorField::kDims, size);
  message.number(TensorField::kDType, onnx_type(tensor.dtype()));
  if (!name.empty()) message.text(TensorField::kName, name);
  return message;
}

Message tensor_message(const Tensor& tensor, std::string_view name) {
  Message message = tensor_head(tensor, name);
  message.borrow(TensorField::kRawData, bytes_of(tensor));
  return message;
}

Message attribute_message(const Attribute& attribute) {
  Message message;
  message.text(AttributeField::kName, attribute.name);
  const auto write = [&]<typename T>(const T& value) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      message.number(AttributeField::kInt, value);
      message.number(AttributeField::kType, AttributeType::kInt);
    } else if constexpr (std::is_same_v<T, double>) {
      message.real(AttributeField::kFloat, static_cast<float>(value));
      message.number(AttributeField::kType, AttributeType::kFloat);
    } else if constexpr (std::is_same_v<T, std::string>) {
      message.text(AttributeField::kString, value);
      message.number(AttributeField::kType, AttributeType::kString);
    } else if constexpr (std::is_same_v<T, Tensor>) {
      message.message(AttributeField::kTensor, tensor_message(value, ""));
      message.number(AttributeField::kType, AttributeType::kTensor);
    } else {
      for (const std::int64_t each : value) message.number(AttributeField::kInts, each);
      message.number(AttributeField::kType, AttributeType::kInts);
    }
  };
  std::visit(write, attribute.value);
  return message;
}

Message node_message(const Node& node) {
  Message message;
  for (const std::string& input : node.inputs) message.text(NodeField::kInput, input);
  for (const std::string& output : node.outputs) message.text(NodeField::kOutput, output);
  message.text(NodeField::kName, node.outputs.front());
  message.text(NodeField::kOpType, node.op);
  for (const Attribute& attribute : node.attributes) {
    message.message(NodeField::kAttribute, attribute_message(attribute));
  }
  return message;
}

Message port_message(const Port& port) {
  Message shape;
  for (std::size_t d = 0; d < port.sizes.size(); ++d) {
    Message dim;
    const bool is_unknown = d < port.unknown.size() && port.unknown[d];
    if (d < port.symbols.size() && !port.symbols[d].empty()) {
      dim.text(PortField::kDimParam, port.symbols[d]);
    } else if (!is_unknown) {
      dim.number(PortField::kDimValue, port.sizes[d]);
    }
    shape.message(PortField::kDim, dim);
  }
  Message tensor;
  tensor.number(PortField::kElement, onnx_type(port.dtype));
  tensor.message(PortField::kShape, shape);
  Message type;
  type.message(PortField::kTensorType, tensor);
  Message message;
  message.text(PortField::kName, port.name);
  message.message(PortField::kType, type);
  return message;
}

// Weights beside the model.
class DataFile {
 public:
  explicit DataFile(const std::string& model)
      : file_(model + ".data"), name_(model.substr(model.rfind('/') + 1) + ".data") {}

  Message add(const Constant& constant) {
    const std::uint64_t padding = (kAlignment - size_ % kAlignment) % kAlignment;
    file_.write(std::vector<std::byte>(padding));
    size_ += padding;
    Message message = tensor_head(constant.tensor, constant.name);
    const std::pair<std::string_view, std::string> entries[] = {
        {"location", name_},
        {"offset", std::to_string(size_)},
        {"length", std::to_string(constant.tensor.nbytes())}};
    for (const auto& [key, value] : entries) {
      message.message(TensorField::kExternal, entry(key, value));
    }
    message.number(TensorField::kLocation, 1);
    file_.write(bytes_of(constant.tensor));
    size_ += constant.tensor.nbytes();
    return message;
  }
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
  std::string name_;
  std::uint64_t size_ = 0;
};

Message graph_message(const Graph& graph, const std::string& name, std::optional<DataFile>& data) {
  Message message;
  for (const Node& node : graph.nodes) message.message(GraphField::kNode, node_message(node));
  message.text(GraphField::kName, name);
  for (const Constant& constant : graph.constants) {
    const bool is_beside = data && constant.tensor.nbytes() >= kSmallest;
    message.message(GraphField::kInitializer, is_beside
                                                  ? data->add(constant)
                                                  : tensor_message(constant.tensor, constant.name));
  }
  for (const Port& input : graph.inputs) message.message(GraphField::kInput, port_message(input));
  for (const Port& output : graph.outputs) {
    message.message(GraphField::kOutput, port_message(output));
  }
  return message;
}

}  // namespace

void write_model(const Graph& graph, const ModelFile& file) {
  AtomicFile model_file(file.path);
  std::optional<DataFile> data;
  if (file.external_data) data.emplace(file.path);
  Message model;
  model.number(ModelField::kIrVersion, kIrVersion);
  model.text(ModelField::kProducer, "dlrun");
  model.text(ModelField::kProducerVersion, kVersion);
  model.message(ModelField::kGraph, graph_message(graph, file.graph_name, data));
  Message opset;
  opset.text(OpsetField::kDomain, "");
  opset.number(OpsetField::kVersion, kOpset);
  model.message(ModelField::kOpset, opset);
  for (const auto& [key, value] : file.metadata) {
    model.message(ModelField::kMetadata, entry(key, value));
  }
  DL_CHECK(model.size() < std::numeric_limits<std::int32_t>::max(), kInvalidArgument,
           "export_model: {} would have {} bytes, and a file of ONNX holds less than 2 GiB; set "
           "external_data",
           file.path, model.size());
  model.write([&](std::span<const std::byte> bytes) { model_file.write(bytes); });
  if (data) data->commit();
  model_file.commit();
}

}  // namespace dl::onnx
