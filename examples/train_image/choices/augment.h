// How training images are changed at random (--augment). A new way is a row in augment.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "nn/data/transforms/transforms.h"

namespace dl::examples {

struct AugmentRow {
  std::string_view name;
  bool resizes;  // takes images of any size
  // For images of `side` pixels a side, or of any size; none: leaves them.
  std::vector<data::Transform> (*make)(std::int64_t side);
};

std::span<const AugmentRow> augmentations();
// Throws kInvalidArgument with the names that there are.
const AugmentRow& find_augmentation(std::string_view name);

}  // namespace dl::examples
