#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/leaf.h"
#include "core/base/text/printable.h"
#include "nn/module/module.h"
#include "nn/serialize/safetensors_header.h"
#include "nn/serialize/value.h"

namespace dl::nn {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + quoted_name(name);
  return text;
}

}  // namespace

IncompatibleKeys Module::load_state_dict(const StateDict& state, LoadStateOptions options) {
  return load(state, {}, "", options);
}

IncompatibleKeys Module::load_value(const Value& state, LoadStateOptions options) {
  return load(state.as_state_dict(), {}, "", options);
}

IncompatibleKeys Module::load(const StateDict& state, std::span<const SkippedTensor> skipped,
                              std::string_view path, LoadStateOptions options) {
  check_not_moved("load_state_dict");
  std::unordered_map<std::string_view, const Tensor*> given;
  for (const NamedTensor& entry : state) {
    DL_CHECK(entry.tensor.defined(), kInvalidArgument, "load_state_dict: {} is an undefined tensor",
             quoted_name(entry.name));
    DL_CHECK(given.emplace(entry.name, &entry.tensor).second, kInvalidArgument,
             "load_state_dict: the state holds {} twice", quoted_name(entry.name));
  }
  std::unordered_map<std::string_view, const SkippedTensor*> unreadable;
  for (const SkippedTensor& entry : skipped) unreadable.emplace(entry.name, &entry);
  IncompatibleKeys keys;
  std::vector<NamedTensor> not_given;
  std::string wanted;  // and unreadable
  std::string mismatches;
  std::vector<std::pair<Tensor, const Tensor*>> copies;
  for (NamedTensor& own : state_dict()) {
    const auto found = given.find(own.name);
    if (found == given.end()) {
      if (const auto entry = unreadable.find(own.name); entry != unreadable.end()) {
        wanted +=
            fmt::format("\n\tCannot load {}: {}.", quoted_name(own.name), entry->second->reason);
        unreadable.erase(entry);
      } else {
        not_given.push_back(own);
      }
      continue;
    }
    const Tensor& value = *found->second;
    given.erase(found);
    if (value.sizes() == own.tensor.sizes()) {
      copies.emplace_back(own.tensor, &value);
    } else {
      mismatches += fmt::format(
          "\n\tsize mismatch for {}: copying a param with shape {} from checkpoint, the shape in "
          "current model is {}.",
          own.name, value.sizes().str(), own.tensor.sizes().str());
    }
  }
  // Files of safetensors have a shared tensor under one of its names.
  for (const NamedTensor& own : not_given) {
    const bool is_given = std::ranges::any_of(copies, [&](const auto& copy) {
      return copy.first.numel() > 0 && copy.first.data_ptr() == own.tensor.data_ptr() &&
             copy.first.sizes() == own.tensor.sizes();
    });
    if (!is_given) keys.missing.push_back(own.name);
  }
  for (const NamedTensor& entry : state) {
    if (given.contains(entry.name)) keys.unexpected.push_back(entry.name);
  }
  for (const SkippedTensor& entry : skipped) {
    if (unreadable.contains(entry.name)) keys.unexpected.push_back(entry.name);
  }
  // PyTorch's text and order; a wrong shape is an error also with strict = false.
  std::string problems;
  if (options.strict && !keys.missing.empty()) {
    problems += fmt::format("\n\tMissing key(s) in state_dict: {}.", list_of(keys.missing));
  }
  if (options.strict && !keys.unexpected.empty()) {
    problems += fmt::format("\n\tUnexpected key(s) in state_dict: {}.", list_of(keys.unexpected));
  }
  problems += wanted + mismatches;
  DL_CHECK(problems.empty(), kMismatch, "Error(s) in loading state_dict for {}{}{}:{}", type_name(),
           path.empty() ? "" : " from ", path, problems);
  NoGradGuard no_grad;
  for (auto& [own, value] : copies) own.copy_(*value);
  // Values that an error of DDP's group may have made garbage are now overwritten.
  for (const NamedTensor& p : named_parameters()) {
    const FirstError* const error = grad_error(p.tensor);
    if (!p.tensor.is_cuda() || error == nullptr || !error->get()) continue;
    const auto is_it = [&](const auto& copied) {
      return copied.first.data_ptr() == p.tensor.data_ptr();
    };
    if (std::ranges::any_of(copies, is_it)) clear_grad_error(p.tensor);
  }
  return keys;
}

}  // namespace dl::nn
