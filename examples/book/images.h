// The data sets of the chapters.
#pragma once

#include "examples/book/cnn.h"
#include "examples/book/options.h"
#include "nn/data/dataset.h"

namespace dl::examples::book {

enum class Set : std::uint8_t { kFashionMnist, kCifar10 };

struct Images {
  data::ImageDataset train;
  data::ImageDataset test;
  CNNOptions model;  // a model for images of this size
};

enum class Preparation : std::uint8_t {
  kToTensor,  // pixels become 0 to 1: the book's transform in all chapters but one
  // Chapter 5's seven transforms: Resize, CenterCrop, RandomHorizontalFlip(p=0.5),
  // RandomRotation(20), GaussianBlur(kernel_size=3), ToTensor, Normalize. The book resizes to 255
  // and crops to 224; here images are resized to 255/224 of their size, and cropped to it. Test
  // images go only through the transforms that are not random.
  kAugmented,
};

// Reads the chapter's set from --data-dir, or the digits. Throws kInvalidArgument, with the names
// of the files, if neither option is given; else what the readers throw.
Images load_images(const Options& options, Set set,
                   Preparation preparation = Preparation::kToTensor);

}  // namespace dl::examples::book
