// What a normalisation is told besides its tensors. Aggregates, for designated initialisers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace dl {

// Rows of channels x inner elements, each normalised by its own mean and variance. Row r's channel
// c has the weight c + channels (r mod groups).
//   layer_norm, rms_norm  [rows, channels], inner 1
//   group_norm            [N groups, C / groups, places]
struct RowNormArgs {
  std::string_view op;
  std::int64_t rows = 0;
  std::int64_t groups = 1;
  std::int64_t channels = 0;  // of one row
  std::int64_t inner = 1;
  double eps = 0;
  bool centered = true;  // false: rms_norm, which divides by the root of the mean square

  std::int64_t width() const noexcept { return channels * inner; }
};

// Each channel is normalised by the mean and variance of all samples and places.
struct BatchNormArgs {
  std::int64_t samples = 0;
  std::int64_t channels = 0;
  std::int64_t places = 1;
  bool channels_last =
      false;  // memory is [samples, places, channels], else [samples, channels, places]
  bool batch_statistics = true;  // false: the running ones
  double momentum = 0;           // the share of this batch in the running statistics
  double eps = 0;
  // For the backward pass of a batch that several ranks share: the number of values per channel on
  // all ranks, and the sums over ranks of each channel's bias gradient, then of each channel's
  // weight gradient [2 * channels]. 0 and empty: the batch is whole.
  std::int64_t rows_of_all = 0;
  std::span<const double> sums_of_all{};
};

}  // namespace dl
