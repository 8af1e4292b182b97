// Networks that are exported by hand and compared with onnxruntime: see compare.py.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"
#include "nn/module/module.h"
#include "nn/onnx/export.h"

namespace dl::onnx {

struct Case {
  std::shared_ptr<nn::Module> model;  // that the forward calls
  Forward forward;
  std::vector<std::vector<Tensor>> inputs;  // of each call; the first one's are the example
  ExportOptions options{};
};

// Writes the cases that have `only` in their names into a folder, and counts those that fail.
class Writer {
 public:
  Writer(std::string folder, std::string only)
      : folder_(std::move(folder)), only_(std::move(only)) {}

  // Calls make() and writes NAME.onnx, and the inputs and outputs of each call as
  // NAME.<call>.in.<i>.npy and NAME.<call>.out.<i>.npy. Prints what it throws.
  void add(const std::string& name, const std::function<Case()>& make);
  int failed() const noexcept { return failed_; }

 private:
  void write(const std::string& name, const Case& each) const;

  std::string folder_;
  std::string only_;
  int failed_ = 0;
};

void write_networks(Writer& writer);  // all networks of nn/models
void write_layers(Writer& writer);    // recurrent and transformer layers
void write_edges(Writer& writer);     // functions at the edges of what tensors can be
void write_dtypes(Writer& writer);    // functions of each dtype

// Inputs of one tensor for batches of 2, 1 and 5.
std::vector<std::vector<Tensor>> batches_of(const std::function<Tensor(std::int64_t)>& make);

}  // namespace dl::onnx
