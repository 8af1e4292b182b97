#include "nn/layers/dropout.h"

#include <fmt/format.h>

#include "nn/functional/functional.h"

namespace dl::nn {

Dropout::Dropout(double probability) : p(probability) {
  DL_CHECK(p >= 0 && p <= 1, kInvalidArgument, "Dropout: p is {}, wanted a probability, 0 to 1", p);
}

Tensor Dropout::forward(const Tensor& input) {
  check_not_moved("a call");
  return functional::dropout(input, p, {.training = is_training()});
}

std::string Dropout::extra_repr() const {
  // As Python writes a float: 1.0, not 1.
  std::string number = fmt::format("{}", p);
  if (number.find_first_of(".e") == number.npos) number += ".0";
  return "p=" + number + ", inplace=False";
}

}  // namespace dl::nn
