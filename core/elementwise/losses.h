// The rows of losses.def as values: the enumerator PairLoss, and what each row says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace dl {

enum class PairLoss : std::uint8_t {
#define DL_PAIR_LOSS(enumerator, ...) enumerator,
#include "core/elementwise/losses.def"
};

struct PairLossFacts {
  PairLoss fn;
  std::string_view name;
  std::string_view text;                      // for the reference
  double low, high, target_low, target_high;  // numbers for tests
  double a;                                   // beta or delta for tests
};

inline constexpr PairLossFacts kPairLossFacts[] = {
#define DL_PAIR_LOSS(enumerator, name, Formula, text, low, high, target_low, target_high, a) \
  {PairLoss::enumerator, #name, text, low, high, target_low, target_high, a},
#include "core/elementwise/losses.def"
};

constexpr const PairLossFacts& facts(PairLoss fn) noexcept {
  return kPairLossFacts[static_cast<std::size_t>(fn)];
}

// Arguments of a pair loss kernel other than tensors.
struct PairLossArgs {
  double a = 0;          // beta or delta
  bool reduced = false;  // one number, the sum of all elements over `divisor`
  double divisor = 1;
  bool operator==(const PairLossArgs&) const = default;
};

struct NllArgs {
  std::int64_t ignore_index = -100;
  double smoothing = 0;  // the share of a target that all classes get
  bool reduced = false;  // one number, the sum of all elements
  bool mean = false;     // over the sum of the weights of their targets
  // Targets may come in parts: their sums continue, and the last part has the reduced loss.
  bool first_part = true;
  bool last_part = true;
  bool operator==(const NllArgs&) const = default;

  // The reduced loss, from the sums of all losses and of the weights of their targets. PyTorch adds
  // two means, over own classes and over all; the first is 0 / 0 if the weights sum to 0.
  constexpr double reduce(double losses, double weights) const {
    if (!mean) return losses;
    const bool is_nan = smoothing != 0 && weights == 0;
    return is_nan ? std::numeric_limits<double>::quiet_NaN() : losses / weights;
  }
};

}  // namespace dl
