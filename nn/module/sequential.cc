#include "nn/module/sequential.h"

#include <vector>

namespace dl::nn {

Tensor forward_chain(std::span<Module* const> modules, const Tensor& input) {
  const auto activation = [&](std::size_t i) {
    return i < modules.size() ? modules[i]->activation() : Activation::kNone;
  };
  // Whether module i + 1 takes module i, an activation, before it.
  const auto goes_before = [&](std::size_t i) {
    return i + 1 < modules.size() && activation(i) != Activation::kNone &&
           modules[i + 1]->can_fuse({.before = activation(i)});
  };
  Tensor value = input;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (goes_before(i)) {
      value = modules[i + 1]->forward_fused(value, {.before = activation(i)});
      ++i;
      continue;
    }
    const Fusion with_next{.after = activation(i + 1)};
    if (with_next.after != Activation::kNone && !goes_before(i + 1) &&
        modules[i]->can_fuse(with_next)) {
      value = modules[i]->forward_fused(value, with_next);
      ++i;
      continue;
    }
    value = (*modules[i])(value);
  }
  return value;
}

Sequential::Sequential(std::initializer_list<Entry> modules) {
  for (const Entry& entry : modules) {
    adopt(entry.name_.empty() ? std::to_string(size()) : entry.name_, std::move(entry.module_));
  }
}

Module& Sequential::operator[](std::size_t index) const {
  check_not_moved("operator[]");
  DL_CHECK(index < size(), kIndex, "Sequential: there is no module {} among {}", index, size());
  return child(index);
}

Tensor Sequential::forward(const Tensor& input) {
  check_not_moved("a call");
  std::vector<Module*> modules(size());
  for (std::size_t i = 0; i < modules.size(); ++i) modules[i] = &child(i);
  return forward_chain(modules, input);
}

}  // namespace dl::nn
