// One case of the comparison with PyTorch: tensors, and what else the operation is told.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl::fuzz {

class Case {
 public:
  Case(const nlohmann::json& arguments, std::vector<Tensor> tensors)
      : arguments_(arguments), tensors_(std::move(tensors)) {}

  const std::vector<Tensor>& tensors() const { return tensors_; }
  // Undefined if the case has fewer.
  Tensor operator[](std::size_t i) const { return i < tensors_.size() ? tensors_[i] : Tensor(); }

  bool has(const char* name) const { return arguments_.contains(name); }
  std::int64_t whole(const char* name) const { return arguments_.at(name).get<std::int64_t>(); }
  bool flag(const char* name) const { return has(name) && arguments_.at(name).get<bool>(); }
  std::string word(const char* name) const { return arguments_.at(name).get<std::string>(); }
  Dims dims(const char* name) const;
  // Of the kind that JSON says: true, 1 or 1.0; "nan", "inf" and "-inf" are floating.
  Scalar scalar(const char* name) const;
  std::optional<Scalar> scalar_if(const char* name) const;
  double number(const char* name) const { return scalar(name).as_double(); }

 private:
  const nlohmann::json& arguments_;
  std::vector<Tensor> tensors_;
};

using Results = std::vector<Tensor>;
using Operation = std::function<Results(const Case&)>;
using Operations = std::map<std::string, Operation>;

// Rows of core/elementwise and core/reductions, by their names.
void add_rows(Operations& operations);
// All other operations.
void add_shapes(Operations& operations);
void add_layers(Operations& operations);
void add_losses(Operations& operations);

DType dtype_named(const std::string& name);

}  // namespace dl::fuzz
