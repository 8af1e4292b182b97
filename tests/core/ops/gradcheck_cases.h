// One function for each row of op_list.def, and each of DL_BINARY in core/elementwise/list.def,
// that asks for a gradcheck. A row without one does not link, and the linker names it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/autograd/gradcheck.h"
#include "core/tensor/factories.h"

#define DL_DECLARE_kGradcheck(kernel) void gradcheck_##kernel();
#define DL_DECLARE_kNoGradient(kernel)

namespace dl::testing {

#define DL_OP(enumerator, kernel, name, on_cpu, on_cuda, gradcheck, outputs, flops) \
  DL_DECLARE_##gradcheck(kernel)
#define DL_COMPOSED(name) void gradcheck_##name();
#include "core/ops/op_list.def"
#undef DL_OP
#define DL_BINARY(enumerator, name, Formula, text, takes, gives, on_cpu, on_cuda, cuda, gradcheck) \
  DL_DECLARE_##gradcheck(name)
#include "core/elementwise/list.def"

// A float64 leaf of numbers in (-2, 2), none of which is near 0 or near another, the same in every
// run.
Tensor numbers(const Shape& shape, std::uint64_t seed = 1);
// The same in (0.3, 2.3).
Tensor positive_numbers(const Shape& shape, std::uint64_t seed = 1);

// Runs gradgradcheck and turns its error into a test failure, but not the refusal of an operation
// that is known to record no gradients of gradients.
void check_second(std::string_view what, const std::function<Tensor(const std::vector<Tensor>&)>& f,
                  const std::vector<Tensor>& inputs, GradcheckOptions options = {});
// Runs gradcheck and check_second() and turns an error into a test failure.
void check(std::string_view what, const std::function<Tensor(const std::vector<Tensor>&)>& f,
           const std::vector<Tensor>& inputs, GradcheckOptions options = {});

}  // namespace dl::testing
