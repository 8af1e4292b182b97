// Operations that are more than a row of one element, as cases for every device, beside PyTorch's
// values and gradients. The case of the same name in tests/parity/make_arrays.py computes the same;
// inputs are in tests/parity/arrays/composed.safetensors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"
#include "tests/parity/arrays.h"

namespace dl::testing {

struct ComposedCase {
  const char* name;
  std::function<Tensor(const std::vector<Tensor>&)> f;
};
const std::vector<ComposedCase>& composed_cases();

// While it lives, the tensors that cases of this thread make are on `device`.
class OnDeviceOfCases {
 public:
  explicit OnDeviceOfCases(Device device);
  ~OnDeviceOfCases();
  OnDeviceOfCases(const OnDeviceOfCases&) = delete;
  OnDeviceOfCases& operator=(const OnDeviceOfCases&) = delete;
};

// On the CPU.
std::vector<Tensor> inputs_of(const parity::Arrays& arrays, const std::string& name, DType dtype);
// Values, shapes and gradients in float64 or float32. `dense`: inputs are, else they have gaps.
// `errors`: how many times the usual errors are allowed.
void check_composed(const ComposedCase& c, const parity::Arrays& arrays, DType dtype, bool dense,
                    Device device = {}, double errors = 1);

}  // namespace dl::testing
