// PyTorch's other names of functions: clip(x, 0, 1) is clamp(x, 0, 1), arccos(x) is acos(x).
// core/tensor/aliases.def lists them. Error texts have the first name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl {

#define DL_DEFAULT(value) = value
#define DL_BEHIND(...) __VA_OPT__(, ) __VA_ARGS__
#define DL_ALIAS(Result, alias, name, parameters, arguments) \
  Result alias(const Tensor& input DL_BEHIND parameters);
#define DL_ALIAS_UNARY(alias, name) Tensor alias(const Tensor& input);
#define DL_ALIAS_OF_TENSORS(alias, name) Tensor alias(const Tensor& a, const Tensor& b);
#define DL_ALIAS_OF_TWO(alias, name)              \
  Tensor alias(const Tensor& a, const Tensor& b); \
  Tensor alias(const Tensor& a, Scalar b);
#define DL_ALIAS_OF_LIST(alias, name)                                     \
  Tensor alias(std::span<const Tensor> tensors, std::int64_t dim = 0);    \
  Tensor alias(const std::vector<Tensor>& tensors, std::int64_t dim = 0); \
  Tensor alias(std::initializer_list<Tensor> tensors, std::int64_t dim = 0);
#include "core/tensor/aliases.def"
#undef DL_BEHIND
#undef DL_DEFAULT

}  // namespace dl
