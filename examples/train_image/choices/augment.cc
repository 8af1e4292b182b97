#include "examples/train_image/choices/augment.h"

#include <algorithm>

#include "examples/support/training/choices/rows.h"

namespace dl::examples {
namespace {

namespace tf = data::transforms;
using Transforms = std::vector<data::Transform>;

Transforms leave(std::int64_t /*side*/) {
  return {};
}

// A crop of an image that is padded by an eighth: 4 pixels of 32 (He et al. 2016).
Transforms make_shift(std::int64_t side) {
  return {tf::RandomCrop(side, {.padding = std::max<std::int64_t>(1, side / 8)})};
}

Transforms make_shift_flip(std::int64_t side) {
  return {tf::RandomCrop(side, {.padding = std::max<std::int64_t>(1, side / 8)}),
          tf::RandomHorizontalFlip()};
}

Transforms make_crop_flip(std::int64_t side) {
  return {tf::RandomResizedCrop(side), tf::RandomHorizontalFlip()};
}

constexpr AugmentRow kAugmentations[] = {
    {"none", false, leave},
    {"shift", false, make_shift},
    {"shift-flip", false, make_shift_flip},
    {"crop-flip", true, make_crop_flip},
};

}  // namespace

std::span<const AugmentRow> augmentations() {
  return kAugmentations;
}

const AugmentRow& find_augmentation(std::string_view name) {
  return find_row(augmentations(), "--augment", name);
}

}  // namespace dl::examples
