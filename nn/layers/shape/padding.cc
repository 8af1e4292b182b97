#include "nn/layers/shape/padding.h"

#include "nn/layers/repr.h"

namespace dl::nn {

Dims Padding::of(std::size_t dims, std::string_view layer) const {
  if (pads_.empty()) return Dims(2 * dims, each_);
  DL_CHECK(pads_.size() == 2 * dims, kInvalidArgument,
           "{}: the padding has {} numbers, wanted {}: before and after each dimension", layer,
           pads_.size(), 2 * dims);
  return pads_;
}

Tensor PadNd::forward(const Tensor& input) {
  check_not_moved("a call");
  return pad(input, padding, mode_, value_);
}

std::string PadNd::extra_repr() const {
  std::string tuple = fmt::format("({})", fmt::join(padding.begin(), padding.end(), ", "));
  if (!shows_value_) return tuple;
  return "padding=" + tuple + ", value=" + python_float(value_.as_double());
}

}  // namespace dl::nn
