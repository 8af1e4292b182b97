#include "examples/support/training/report/blame.h"

#include <fmt/format.h>

#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"

namespace dl::examples {
namespace {

bool is_finite(const Tensor& tensor) {
  return all(isfinite(tensor.detach())).item<bool>();
}

}  // namespace

std::string blame_for(nn::Module& model, const Tensor& input) {
  const NoGradGuard no_grad;
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (!is_finite(parameter)) return fmt::format("the parameter {} is not finite", name);
  }
  if (!is_finite(input)) return "the batch itself has a value that is not finite";
  std::string blamed;
  std::vector<HookHandle> hooks;
  for (const auto& [name, module] : model.named_modules()) {
    // A module runs before the one that contains it is done.
    hooks.push_back(module->register_forward_hook(
        [&blamed, name](nn::Module& self, const Tensor& /*input*/, const Tensor& output) {
          if (blamed.empty() && !is_finite(output)) {
            blamed = name.empty() ? "the output of the model" : "the output of " + name;
            blamed += fmt::format(" ({}) is not finite", self.type_name());
          }
          return Tensor();
        }));
  }
  model(input);
  for (HookHandle& hook : hooks) hook.remove();
  return blamed.empty() ? kAllFinite : blamed;
}

}  // namespace dl::examples
