#include "examples/support/training/report/fingerprint.h"

#include <gtest/gtest.h>

#include "collectives/solo/solo_group.h"
#include "core/tensor/factories.h"

namespace dl::examples {
namespace {

TEST(Fingerprint, IsWhatHashlibGives) {
  // sha256(b"w" + float32[1, 2, 3, 4] + b"b" + float32[0.5])
  const nn::StateDict parameters = {{"w", tensor({{1.0, 2.0}, {3.0, 4.0}})}, {"b", tensor({0.5})}};
  EXPECT_EQ(hex(fingerprint(parameters)),
            "93d0f7455e34a1ad371d1dcfd1c4ac1d3a41dc92a3b097f4582f57f6f0c4bb5f");
}

TEST(Fingerprint, SeesNamesValuesAndOrderButNotStrides) {
  const Tensor m = tensor({{1.0, 2.0}, {3.0, 4.0}});
  const Sha256 hash = fingerprint({{"m", m}});
  EXPECT_NE(fingerprint({{"n", m}}), hash);
  EXPECT_NE(fingerprint({{"m", m.t()}}), hash);
  EXPECT_EQ(fingerprint({{"m", m.t().contiguous().t()}}), hash);
  EXPECT_NE(fingerprint({{"m", tensor({{1.0, 2.0}, {3.0, 4.0000005}})}}), hash);
}

TEST(Fingerprint, OneRankAgreesWithItself) {
  const auto group = collectives::make_solo_group();
  EXPECT_NO_THROW(require_equal_on_all_ranks(fingerprint({{"a", tensor({1.0})}}), *group));
}

}  // namespace
}  // namespace dl::examples
