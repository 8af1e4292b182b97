// Pruning of parameters by masks, with the names, the masks and the state_dict of
// torch.nn.utils.prune.
//
//     nn::utils::prune::l1_unstructured(conv, "weight", 0.3);  // 30 % become 0
//     ...
//     nn::utils::prune::remove(conv, "weight");
//
// Pruning makes parameter NAME the parameter NAME_orig and the buffer NAME_mask. Each call of the
// module first computes NAME = mask * orig, through which gradients flow; so make the optimizer
// afterwards. To prune again prunes elements or channels that the mask keeps, and an amount is one
// of those. Ties are broken as PyTorch built with libstdc++ breaks them; random pruning draws from
// the default generator, on the CPU. Nothing changes if a function throws.
//
// Recurrent layers and modules of several inputs, except MultiheadAttention, have no call that
// computes NAME: call their compute_parameters() before forward().
//
// `importance_scores` take the place of the parameter's values in the choice; they have its shape.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/tensor/tensor.h"
#include "nn/module/module.h"

namespace dl::nn::utils::prune {

// How many elements or channels to prune: a share (0.3, rounded as Python's round()) or a number
// (3). Throws kInvalidArgument for a share outside [0, 1] and for a number below 0.
class Amount {
 public:
  Amount(std::floating_point auto share) : Amount(static_cast<double>(share), -1) {}
  Amount(std::integral auto number) : Amount(0, static_cast<std::int64_t>(number)) {
    if (number < 0) refuse_number(static_cast<std::int64_t>(number));
  }

  // Throws kInvalidArgument for a number above `all`.
  std::int64_t of(std::int64_t all) const;

 private:
  Amount(double share, std::int64_t number);
  [[noreturn]] static void refuse_number(std::int64_t number);

  double share_;
  std::int64_t number_;  // -1: the share counts
};

// All of these throw kNotFound if the module has no parameter of this name, and return the module.

// Prunes the elements of the smallest magnitude.
Module& l1_unstructured(Module& module, std::string_view name, Amount amount,
                        const Tensor& importance_scores = {});
Module& random_unstructured(Module& module, std::string_view name, Amount amount);
// Prunes the channels along `dim` of the smallest L_n norm; n may be infinite. Throws kShape for
// fewer than two dimensions, and kIndex for a `dim` that does not exist.
Module& ln_structured(Module& module, std::string_view name, Amount amount, double n,
                      std::int64_t dim, const Tensor& importance_scores = {});
Module& random_structured(Module& module, std::string_view name, Amount amount, std::int64_t dim);

struct ParameterOf {
  Module& module;
  std::string name;
  Tensor importance_scores{};  // undefined: the parameter's values
};
enum class Unstructured : std::uint8_t { kL1, kRandom };
// Prunes elements of all these parameters, as if they were one.
void global_unstructured(std::span<const ParameterOf> parameters, Unstructured method,
                         Amount amount);
// Multiplies the parameter's mask by this one, of the parameter's shape.
Module& custom_from_mask(Module& module, std::string_view name, const Tensor& mask);
// A mask of ones.
Module& identity(Module& module, std::string_view name);

// Makes NAME a parameter again, with the masked values, in the memory of NAME_orig; it is then the
// last parameter. Throws kInvalidArgument if it is not pruned.
Module& remove(Module& module, std::string_view name);
// Whether the module or one of its submodules is pruned.
bool is_pruned(Module& module);

}  // namespace dl::nn::utils::prune
