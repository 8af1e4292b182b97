// Labelled images in memory, and the files they come from: MNIST's four IDX files, the binary
// versions of CIFAR-10 and CIFAR-100.
//
// The readers return the files' pixels unchanged; transforms.h converts them to network inputs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/data/readers/idx.h"

namespace dl::data {

struct LabelledImages {
  std::int64_t count = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::byte> pixels{};     // uint8 [count, channels, height, width]
  std::vector<std::uint8_t> labels{};  // [count], each below classes
  std::int64_t classes = 10;

  std::size_t image_bytes() const noexcept {
    return static_cast<std::size_t>(channels * height * width);
  }
};

enum class Split : std::uint8_t { kTrain, kTest };

// {train,t10k}-{images-idx3,labels-idx1}-ubyte, plain or .gz, in `dir`: MNIST, Fashion-MNIST and
// the digits that come with dlrun. All images have one size, which may be any. Throws kNotFound,
// kIo or kParse, naming the file.
LabelledImages read_mnist(const std::string& dir, Split split, ReadLimits limits = {});
// read_mnist() for two arrays; the names replace file names in errors.
LabelledImages join_mnist(IdxArray images, std::string_view images_name, const IdxArray& labels,
                          std::string_view labels_name);

// data_batch_1.bin ... data_batch_5.bin, or test_batch.bin, in `dir` or in the folder
// cifar-10-batches-bin in it (A. Krizhevsky 2009): records of one label and 3 x 32 x 32 bytes.
// Throws kNotFound, kIo or kParse, naming the file.
LabelledImages read_cifar10(const std::string& dir, Split split);
// Appends the records of one file's bytes to `images`. `name` stands for the file in errors. Throws
// kParse for a wrong size or a label out of range.
void append_cifar10(std::span<const std::byte> bytes, std::string_view name,
                    LabelledImages& images);

// train.bin or test.bin, in `dir` or in the folder cifar-100-binary in it: records of a coarse
// label (0 to 19), a fine one (0 to 99) and an image. The labels are the fine ones, as in
// torchvision. Throws kNotFound, kIo or kParse, naming the file.
LabelledImages read_cifar100(const std::string& dir, Split split);
// Like append_cifar10().
void append_cifar100(std::span<const std::byte> bytes, std::string_view name,
                     LabelledImages& images);

}  // namespace dl::data
