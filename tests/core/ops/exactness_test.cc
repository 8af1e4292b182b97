// How exact the float32 functions of vectors are that do not come from a library: over all of
// float32 in small steps, with each instruction set that this processor has.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/base/sanitizers.h"
#include "core/elementwise/list.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl::testing {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t kStep = 200'003;
#else
constexpr std::uint64_t kStep = 5'003;
#endif

// All signs and exponents; NaN, infinities, zeros, subnormal numbers and the ends of functions.
std::vector<float> inputs() {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += kStep) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  for (const float each :
       {0.0F, 1.0F, kInfinity, kMost, kLeast, 0x1p-126F, 88.7228F, 88.7229F, 87.33655F, 103.972F,
        103.973F, 0.75F, 1.5F, 9.01F, 9.02F, 0.34657F, 0.34658F}) {
    for (const float with_sign : {each, -each}) {
      for (const float near : {with_sign, std::nextafter(with_sign, kInfinity),
                               std::nextafter(with_sign, -kInfinity)}) {
        x.push_back(near);
      }
    }
  }
  return x;
}

// The distance from one float32 to the next, of numbers of this size.
double unit(double size) {
  return std::ldexp(1.0, std::max(std::ilogb(size), -126) - 23);
}

struct Exact {
  UnaryFn fn;
  double (*function)(double);
  double units;          // of a result's last place that it may be away,
  double share = 0;      // of the input's magnitude, for results that cancel,
  double magnitude = 0;  // and this, if e^-x has no float32
};

const Exact kExact[] = {
    {UnaryFn::kExp, [](double x) { return std::exp(x); }, 1.0},
    {UnaryFn::kLog, [](double x) { return std::log(x); }, 1.5},
    {UnaryFn::kTanh, [](double x) { return std::tanh(x); }, 1.5},
    {UnaryFn::kErf, [](double x) { return std::erf(x); }, 2.0},
    {UnaryFn::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 2.5, 0, 3e-39},
    {UnaryFn::kGelu, [](double x) { return x * std::erfc(-x * M_SQRT1_2) / 2; }, 3.0, 0x1p-24},
};

void expect_exact(const Exact& exact, const std::vector<float>& x, const std::string& target) {
  const Tensor in = tensor(x);
  const std::vector<float> got = values<float>(unary(exact.fn, in, {}));
  const std::string what = std::string(facts(exact.fn).name) + " on " + target;
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double wanted = exact.function(x[i]);
    const auto rounded = static_cast<float>(wanted);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(got[i])) << what << " of " << x[i] << " is " << got[i];
    } else if (std::isinf(rounded)) {
      ASSERT_EQ(got[i], rounded) << what << " of " << x[i];
    } else {
      ASSERT_TRUE(std::isfinite(got[i])) << what << " of " << x[i] << " is " << got[i];
      if (rounded == 0 && exact.share == 0) {
        ASSERT_EQ(std::signbit(got[i]), std::signbit(rounded)) << what << " of " << x[i];
      }
      const double away =
          std::abs(got[i] - wanted) - exact.share * std::abs(x[i]) - exact.magnitude;
      if (away / unit(wanted) > worst) {
        worst = away / unit(wanted);
        at = i;
      }
    }
  }
  EXPECT_LE(worst, exact.units) << what << " of " << x[at] << " is " << got[at] << ", wanted "
                                << exact.function(x[at]);
  ::testing::Test::RecordProperty(what, std::to_string(worst));
}

TEST(Exactness, OfVectorsOfEachInstructionSet) {
  const std::vector<float> x = inputs();
  const std::int64_t supported = hwy::SupportedTargets() | HWY_STATIC_TARGET;
  for (std::int64_t left = supported & HWY_TARGETS; left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    hwy::GetChosenTarget().Update(target);
    for (const Exact& exact : kExact) expect_exact(exact, x, hwy::TargetName(target));
  }
  hwy::GetChosenTarget().Update(supported);
}

}  // namespace
}  // namespace dl::testing
