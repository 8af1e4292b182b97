// Arguments of recurrent layers other than tensors.
#pragma once

#include <cstdint>
#include <vector>

namespace dl {

enum class RnnCell : std::uint8_t { kTanh, kRelu, kLSTM, kGRU };

// The number of gates. Each has `hidden` rows of the weights.
constexpr std::int64_t gates_of(RnnCell cell) noexcept {
  return cell == RnnCell::kLSTM ? 4 : cell == RnnCell::kGRU ? 3 : 1;
}

// L steps of packed sequences: step 0 of all sequences, then step 1 of each that has one.
struct RnnArgs {
  RnnCell cell = RnnCell::kTanh;
  std::int64_t inputs = 0;     // features of x
  std::int64_t hidden = 0;     // of the cell state
  std::int64_t projected = 0;  // the width to which an LSTM projects its hidden state; 0: none
  std::int64_t layers = 1;
  bool bidirectional = false;
  bool has_bias = true;
  bool trains = false;                      // backward follows
  std::vector<std::int64_t> batch_sizes{};  // the sequences that have step t; never rising

  std::int64_t directions() const noexcept { return bidirectional ? 2 : 1; }
  // The number of features of the hidden state, and of y in each direction.
  std::int64_t width() const noexcept { return projected > 0 ? projected : hidden; }
  // The number of weights and biases of one layer in one direction.
  std::int64_t weights() const noexcept { return (has_bias ? 4 : 2) + (projected > 0 ? 1 : 0); }
  bool operator==(const RnnArgs&) const = default;
};

}  // namespace dl
