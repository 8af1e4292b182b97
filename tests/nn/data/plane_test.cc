#include "nn/data/transforms/plane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/parity/arrays.h"

namespace dl::data {
namespace {

TEST(BilinearResize, MatchesInterpolateWithoutAlignedCorners) {
  const parity::Arrays arrays("resize");
  const std::vector<float> image = arrays.get<float>("image");
  for (const ImageSize to : {ImageSize{28, 28}, {5, 3}, {8, 8}, {1, 1}, {8, 31}}) {
    const std::vector<float> want =
        arrays.get<float>("to_" + std::to_string(to.height) + "_" + std::to_string(to.width));
    std::vector<float> got(want.size());
    BilinearResize({8, 8}, to)(image, got);
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 3e-7) << to.height << "x" << to.width << ", element " << i;
    }
  }
}

TEST(BilinearResize, RefusesSizesOfNothing) {
  EXPECT_THAT(
      [] { BilinearResize({8, 8}, {0, 3}); },
      testing::ThrowsMessage<Error>("resize: got 8x8 to 0x3, wanted 1 to 4194304 pixels a side"));
}

TEST(AntialiasedResize, RefusesPlanesThatAreTooLarge) {
  EXPECT_THAT([] { AntialiasedResize({8, 8}, {8, std::int64_t{1} << 40}); },
              testing::ThrowsMessage<Error>(
                  "resize: got 8x8 to 8x1099511627776, wanted 1 to 4194304 pixels a side"));
  EXPECT_THAT([] { AntialiasedResize({4194304, 1}, {1, 4194304}); },
              testing::ThrowsMessage<Error>("resize: got 4194304x1 to 1x4194304, wanted fewer than "
                                            "2^31 pixels in 4194304x4194304"));
}

TEST(RotatedPixels, RefusesPlanesWhosePixelsInt32CannotCount) {
  EXPECT_THAT([] { rotated_pixels({65536, 32768}, 10); },
              testing::ThrowsMessage<Error>("rotate: got a plane of 65536x32768, wanted 1 to "
                                            "4194304 pixels a side and fewer than 2^31"));
}

TEST(ToUnit, TakesTheEndsToZeroAndOne) {
  const std::vector<std::byte> pixels = {std::byte{0}, std::byte{51}, std::byte{255}};
  std::vector<float> out(3);
  to_unit(pixels, out);
  EXPECT_THAT(out, testing::ElementsAre(0.0F, 0.2F, 1.0F));
}

TEST(Normalise, MovesAndScales) {
  std::vector<float> plane = {0.0F, 0.5F, 1.0F};
  normalise(plane, 0.5F, 0.25F);
  EXPECT_THAT(plane, testing::ElementsAre(-2.0F, 0.0F, 2.0F));
}

}  // namespace
}  // namespace dl::data
