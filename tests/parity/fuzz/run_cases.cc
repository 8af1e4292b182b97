// run_cases IN OUT: runs the cases that fuzz_operations.py wrote, for comparison with PyTorch.
//
// IN.json is a list of cases, IN.safetensors has their memory. OUT.safetensors receives <case>.y0,
// <case>.y1, ... and the gradients <case>.g0, ... of the inputs that ask for one; OUT.json the
// sentence of each case that was refused ("refused"), and for each result of the others its strides
// ("strides") and whose memory it has ("memory"). run_cases --names prints the operations that it
// knows.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <iostream>

#include "core/autograd/grad_mode.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "nn/serialize/safetensors.h"
#include "tests/parity/fuzz/case.h"

namespace dl::fuzz {

Dims Case::dims(const char* name) const {
  Dims result;
  for (const nlohmann::json& entry : arguments_.at(name))
    result.push_back(entry.get<std::int64_t>());
  return result;
}

Scalar Case::scalar(const char* name) const {
  const nlohmann::json& value = arguments_.at(name);
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_string()) return std::stod(value.get<std::string>());
  return value.get<double>();
}

std::optional<Scalar> Case::scalar_if(const char* name) const {
  return has(name) ? std::optional<Scalar>(scalar(name)) : std::nullopt;
}

DType dtype_named(const std::string& name) {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  throw std::runtime_error(name + " is not a dtype");
}

namespace {

using Memory = std::map<std::string, Tensor>;

Dims dims_of(const nlohmann::json& list) {
  Dims result;
  for (const nlohmann::json& entry : list) result.push_back(entry.get<std::int64_t>());
  return result;
}

struct Outcome {
  nn::StateDict tensors;
  nlohmann::json refused = nlohmann::json::object();
  nlohmann::json strides = nlohmann::json::object();
  nlohmann::json memory = nlohmann::json::object();
};

nlohmann::json list_of(const Dims& dims) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::int64_t entry : dims) list.push_back(entry);
  return list;
}

// Whose memory a result has. A "temporary" is a view of a tensor that only the operation has.
const char* memory_of(const Tensor& result, const std::vector<Tensor>& inputs) {
  const bool is_view = static_cast<bool>(result.impl()->base);
  for (const Tensor& input : inputs) {
    if (!input.defined() || input.storage() != result.storage()) continue;
    return result.is_same(input) ? "input" : is_view ? "view" : "shared";
  }
  return is_view ? "temporary" : "new";
}

void run(const nlohmann::json& described, const Operations& operations, const Memory& memory,
         Outcome& outcome) {
  const auto id = described.at("id").get<std::string>();
  const auto keep = [&](const std::string& what, const Tensor& tensor) {
    outcome.tensors.push_back({id + "." + what, tensor.detach().contiguous()});
  };
  std::vector<Tensor> inputs;
  const nlohmann::json& layouts = described.at("in");
  for (const nlohmann::json& layout : layouts) {
    if (layout.is_null()) {
      inputs.emplace_back();
      continue;
    }
    const Tensor& base = memory.at(fmt::format("{}.m{}", id, inputs.size()));
    Tensor input = as_strided(base, dims_of(layout.at("shape")), dims_of(layout.at("strides")),
                              layout.at("offset").get<std::int64_t>());
    if (layout.at("grad").get<bool>()) input.requires_grad_();
    inputs.push_back(std::move(input));
  }
  const auto found = operations.find(described.at("op").get<std::string>());
  if (found == operations.end()) throw std::runtime_error(id + ": no such operation");
  const Results results = found->second(Case(described.at("args"), inputs));
  Tensor total;
  for (std::size_t i = 0; i < results.size(); ++i) {
    keep(fmt::format("y{}", i), results[i]);
    outcome.strides[id].push_back(list_of(results[i].strides()));
    outcome.memory[id].push_back(memory_of(results[i], inputs));
    const auto weight = memory.find(fmt::format("{}.w{}", id, i));
    if (weight == memory.end()) continue;
    if (results[i].sizes() != weight->second.sizes() || !results[i].requires_grad()) continue;
    const Tensor part = sum(results[i].to(DType::kF64) * weight->second);
    total = total.defined() ? total + part : part;
  }
  if (!total.defined()) return;
  total.backward();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].grad().defined())
      keep(fmt::format("g{}", i), inputs[i].grad());
  }
}

int run_all(const std::string& in, const std::string& out, const Operations& operations) {
  std::ifstream file(in + ".json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  Memory memory;
  for (const nn::NamedTensor& entry : nn::load_safetensors(in + ".safetensors").tensors) {
    memory.emplace(entry.name, entry.tensor);
  }
  Outcome outcome;
  for (const nlohmann::json& described : cases) {
    try {
      run(described, operations, memory, outcome);
    } catch (const Error& error) {
      outcome.refused[described.at("id").get<std::string>()] = error.what();
    }
  }
  nn::save_safetensors(out + ".safetensors", outcome.tensors);
  std::ofstream(out + ".json") << nlohmann::json{
      {"refused", outcome.refused}, {"strides", outcome.strides}, {"memory", outcome.memory}};
  return 0;
}

}  // namespace
}  // namespace dl::fuzz

int main(int argc, char** argv) {
  dl::fuzz::Operations operations;
  dl::fuzz::add_rows(operations);
  dl::fuzz::add_shapes(operations);
  dl::fuzz::add_layers(operations);
  dl::fuzz::add_losses(operations);
  if (argc == 2 && std::string(argv[1]) == "--names") {
    for (const auto& [name, operation] : operations) std::cout << name << "\n";
    return 0;
  }
  if (argc != 3) {
    std::cerr << "usage: run_cases IN OUT | run_cases --names\n";
    return 2;
  }
  try {
    return dl::fuzz::run_all(argv[1], argv[2], operations);
  } catch (const std::exception& error) {
    std::cerr << "run_cases: " << error.what() << "\n";
    return 1;
  }
}
