// The methods of core/tensor/methods.def, and the functions of core/tensor/aliases.def.
#include "core/ops/aliases.h"
#include "core/ops/common.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linalg/linalg.h"
#include "core/ops/linear/linear.h"
#include "core/ops/linear/product.h"
#include "core/ops/logic/logic.h"
#include "core/ops/logic/search.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/random/tensor_random.h"

namespace dl {

// NOLINTBEGIN(bugprone-macro-parentheses): parts of declarations
#define DL_BEHIND(...) __VA_OPT__(, ) __VA_ARGS__
#define DL_DEFAULT(value)
#define DL_METHOD(Result, name, parameters, arguments) \
  Result Tensor::name parameters const {               \
    get(#name);                                        \
    return dl::name(*this DL_BEHIND arguments);        \
  }
#define DL_METHOD_IN_PLACE(name, parameters, arguments) \
  Tensor& Tensor::name parameters {                     \
    get(#name);                                         \
    return dl::name(*this DL_BEHIND arguments);         \
  }
#define DL_METHOD_INTO(name, parameters, arguments, tensors)                              \
  Tensor& Tensor::name##_ parameters {                                                    \
    get(#name "_");                                                                       \
    const auto result = [&](const Tensor& x) { return dl::name(x DL_BEHIND arguments); }; \
    return write_result(*this, #name "_", is_recorded(*this DL_BEHIND tensors), result);  \
  }
#include "core/tensor/methods.def"

#define DL_ALIAS(Result, alias, name, parameters, arguments) \
  Result alias(const Tensor& input DL_BEHIND parameters) {   \
    return name(input DL_BEHIND arguments);                  \
  }
#define DL_ALIAS_UNARY(alias, name)   \
  Tensor alias(const Tensor& input) { \
    return name(input);               \
  }
#define DL_ALIAS_OF_TENSORS(alias, name)           \
  Tensor alias(const Tensor& a, const Tensor& b) { \
    return name(a, b);                             \
  }
#define DL_ALIAS_OF_TWO(alias, name)        \
  DL_ALIAS_OF_TENSORS(alias, name)          \
  Tensor alias(const Tensor& a, Scalar b) { \
    return name(a, b);                      \
  }
#define DL_ALIAS_OF_LIST(alias, name)                                     \
  Tensor alias(std::span<const Tensor> tensors, std::int64_t dim) {       \
    return name(tensors, dim);                                            \
  }                                                                       \
  Tensor alias(const std::vector<Tensor>& tensors, std::int64_t dim) {    \
    return name(tensors, dim);                                            \
  }                                                                       \
  Tensor alias(std::initializer_list<Tensor> tensors, std::int64_t dim) { \
    return name(tensors, dim);                                            \
  }
#include "core/tensor/aliases.def"
// NOLINTEND(bugprone-macro-parentheses)
#undef DL_BEHIND
#undef DL_DEFAULT

}  // namespace dl
