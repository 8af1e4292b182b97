// AxisTaps: which elements of one axis an output element is made of, and with which weights.
// Pooling by averages and resampling are such sums, along the rows and then along the columns.
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
  // Ends the output element that add() spoke of.
  void end() { first.push_back(static_cast<std::int64_t>(index.size())); }

  // The taps of the gradient: what each input element goes into.
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
};

struct Taps2d {
  std::string_view op;
  AxisTaps rows;
  AxisTaps columns;
};

}  // namespace dl
