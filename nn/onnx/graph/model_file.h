// A graph as a file: a ModelProto of ONNX, IR version 8, opset 17. The numbers of fields are those
// of the format's definition.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nn/onnx/graph/graph.h"

namespace dl::onnx {

struct ModelFile {
  std::string path;
  std::string graph_name;
  bool external_data = false;  // tensors of at least 1 KiB go to PATH.data
  std::vector<std::pair<std::string, std::string>> metadata{};
};

// Each file appears whole or not at all. PATH.data is replaced before the model, so a failure in
// between leaves an old model beside new data. Throws kNotFound and kIo with the file's name,
// kInvalidArgument for a model of 2 GiB or more without external data.
void write_model(const Graph& graph, const ModelFile& file);

}  // namespace dl::onnx
