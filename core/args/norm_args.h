// Arguments of the normalisation kernels other than tensors. Aggregates, for designated
// initialisers.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/args/part_work.h"

namespace dl {

// Each row of channels x inner elements is normalised by its own mean and variance. Channel c of
// row r uses weight[c + channels (r mod groups)].
//   layer_norm, rms_norm  [rows, channels], inner 1
//   group_norm            [N groups, C / groups, positions]
struct RowNormArgs {
  std::string_view op;
  std::int64_t rows = 0;
  std::int64_t groups = 1;
  std::int64_t channels = 0;  // of one row
  std::int64_t inner = 1;
  double eps = 0;
  bool centered = true;  // false: rms_norm, which divides by the root of the mean square
  PartHooks hooks{};     // of x and y, backward of dy and dx

  std::int64_t width() const noexcept { return channels * inner; }
  bool operator==(const RowNormArgs&) const = default;
};

// Each channel is normalised by its mean and variance over the samples and the spatial positions.
struct BatchNormArgs {
  std::int64_t samples = 0;
  std::int64_t channels = 0;
  std::int64_t positions = 1;
  bool channels_last =
      false;  // memory is [samples, positions, channels], else [samples, channels, positions]
  bool batch_statistics = true;  // false: the running ones
  double momentum = 0;           // the weight of this batch in the running statistics
  double eps = 0;
  PartHooks hooks{};  // of y; backward of dy and dx

  bool operator==(const BatchNormArgs&) const = default;
};

}  // namespace dl
