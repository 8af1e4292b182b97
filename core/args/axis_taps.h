// AxisTaps: for each output index along one axis, the input indices that it sums, with their
// weights. Average pooling and resampling apply such sums to the rows and then to the columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dl {

struct AxisTaps {
  std::int64_t inputs = 0;
  std::vector<std::int64_t> first{0};  // of output i: taps first[i] to first[i + 1]
  std::vector<std::int64_t> index;     // of the input
  std::vector<double> weight;

  std::int64_t outputs() const noexcept { return static_cast<std::int64_t>(first.size()) - 1; }
  void add(std::int64_t input, double factor) {
    index.push_back(input);
    weight.push_back(factor);
  }
  // Ends the list of the current output index; add() begins the next one.
  void end() { first.push_back(static_cast<std::int64_t>(index.size())); }

  // The taps of the backward pass: for each input index, the output indices that use it.
  AxisTaps transposed() const {
    AxisTaps result;
    result.inputs = outputs();
    std::vector<std::vector<std::size_t>> uses(static_cast<std::size_t>(inputs));
    std::vector<std::int64_t> output_of(index.size());
    for (std::size_t o = 0; o + 1 < first.size(); ++o) {
      for (auto k = static_cast<std::size_t>(first[o]); k < static_cast<std::size_t>(first[o + 1]);
           ++k) {
        uses[static_cast<std::size_t>(index[k])].push_back(k);
        output_of[k] = static_cast<std::int64_t>(o);
      }
    }
    for (const std::vector<std::size_t>& taps : uses) {
      for (const std::size_t k : taps) result.add(output_of[k], weight[k]);
      result.end();
    }
    return result;
  }
  bool operator==(const AxisTaps&) const = default;
};

struct Taps2d {
  std::string_view op;
  AxisTaps rows;
  AxisTaps columns;
  bool operator==(const Taps2d&) const = default;
};

}  // namespace dl
