#include "nn/module/sequential.h"

#include <vector>

namespace dl::nn {

Tensor forward_chain(std::span<Module* const> modules, const Tensor& input) {
  // A module with hooks is not fused, so that the hooks see its input and output.
  const auto activation = [&](std::size_t i) {
    return i < modules.size() && !modules[i]->has_forward_hooks() ? modules[i]->activation()
                                                                  : Activation::kNone;
  };
  const auto can_fuse = [&](std::size_t i, const Fusion& fusion) {
    return !modules[i]->has_forward_hooks() && modules[i]->can_fuse(fusion);
  };
  // True if module i is an activation and module i + 1 can fuse it.
  const auto goes_before = [&](std::size_t i) {
    return i + 1 < modules.size() && activation(i) != Activation::kNone &&
           can_fuse(i + 1, {.before = activation(i)});
  };
  Tensor value = input;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (goes_before(i)) {
      modules[i + 1]->compute_parameters();
      value = modules[i + 1]->forward_fused(value, {.before = activation(i)});
      ++i;
      continue;
    }
    const Fusion with_next{.after = activation(i + 1)};
    if (with_next.after != Activation::kNone && !goes_before(i + 1) && can_fuse(i, with_next)) {
      modules[i]->compute_parameters();
      value = modules[i]->forward_fused(value, with_next);
      ++i;
      continue;
    }
    value = (*modules[i])(value);
  }
  return value;
}

Tensor Sequential::forward(const Tensor& input) {
  check_not_moved("a call");
  std::vector<Module*> modules(size());
  for (std::size_t i = 0; i < modules.size(); ++i) modules[i] = &child(i);
  return forward_chain(modules, input);
}

}  // namespace dl::nn
