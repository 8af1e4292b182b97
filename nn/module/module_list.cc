#include "nn/module/module_list.h"

#include <fmt/format.h>

namespace dl::nn {

void detail::refuse_cast(const Module& container, std::string_view place, const Module& found) {
  throw_error(ErrorKind::kInvalidArgument, "{}: module {} is a {}, not what was asked for",
              container.type_name(), place, found.type_name());
}

ModuleList::ModuleList(std::initializer_list<ModuleEntry> modules) {
  for (const ModuleEntry& entry : modules) {
    adopt(entry.name_.empty() ? std::to_string(size()) : entry.name_, std::move(entry.module_));
  }
}

ModuleList& ModuleList::append(ModuleEntry module) {
  DL_CHECK(module.module_ != nullptr, kInvalidArgument,
           "{}: append: the entry holds no module; it was moved from", type_name());
  adopt(module.name_.empty() ? std::to_string(size()) : module.name_, std::move(module.module_));
  return *this;
}

Module& ModuleList::operator[](std::size_t index) const {
  check_not_moved("operator[]");
  DL_CHECK(index < size(), kIndex, "{}: there is no module {} among {}", type_name(), index,
           size());
  return child(index);
}

ModuleDict::ModuleDict(std::initializer_list<ModuleEntry> modules) {
  for (const ModuleEntry& entry : modules) adopt(entry.name_, std::move(entry.module_));
}

bool ModuleDict::contains(std::string_view name) const {
  check_not_moved("contains");
  for (std::size_t i = 0; i < child_count(); ++i) {
    if (child_name(i) == name) return true;
  }
  return false;
}

std::vector<std::string> ModuleDict::keys() const {
  check_not_moved("keys");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < child_count(); ++i) names.push_back(child_name(i));
  return names;
}

Module& ModuleDict::operator[](std::string_view name) const {
  check_not_moved("operator[]");
  std::string present;
  for (std::size_t i = 0; i < child_count(); ++i) {
    if (child_name(i) == name) return child(i);
    present += (i == 0 ? "\"" : ", \"") + child_name(i) + '"';
  }
  throw_error(ErrorKind::kNotFound, "{}: there is no module \"{}\"; it has {}", type_name(), name,
              present.empty() ? "none" : present);
}

ParameterList::ParameterList(std::initializer_list<Tensor> parameters) {
  for (const Tensor& parameter : parameters) add(parameter);
}

Tensor& ParameterList::add(Tensor parameter) {
  Tensor& held = register_parameter(std::to_string(size()), std::move(parameter));
  parameters_.push_back(&held);
  return held;
}

ParameterList& ParameterList::append(Tensor parameter) {
  add(std::move(parameter));
  return *this;
}

Tensor& ParameterList::operator[](std::size_t index) const {
  check_not_moved("operator[]");
  DL_CHECK(index < size(), kIndex, "{}: there is no parameter {} among {}", type_name(), index,
           size());
  return *parameters_[index];
}

std::string ParameterList::extra_repr() const {
  check_not_moved("extra_repr");
  std::string text;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = *parameters_[i];
    text +=
        fmt::format("{}  ({}): Parameter containing: [torch.{} of size {}]", i == 0 ? "" : "\n", i,
                    dl::name_of(p.dtype()), fmt::join(p.sizes().begin(), p.sizes().end(), "x"));
  }
  return text;
}

}  // namespace dl::nn
