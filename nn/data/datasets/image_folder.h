// ImageFolder: a dataset of image files, one folder per class: torchvision.datasets.ImageFolder.
//
//     ImageFolder train("photos/train", {.transform = transforms::Compose({transforms::Resize(256),
//         transforms::CenterCrop(224), transforms::ToTensor()})});
//     DataLoader loader(train, {.batch_size = 32, .shuffle = true, .num_workers = 4});
//
// Thread-safety: as for Dataset. The transform must be callable from several threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"
#include "nn/data/dataset.h"
#include "nn/data/readers/picture.h"
#include "nn/data/transforms/transforms.h"

namespace dl::data {

// Reads a JPEG or PNG file: uint8 [3, height, width] on the CPU. Throws what read_picture() throws.
Tensor read_image(const std::string& path, PictureLimits limits = {});

struct ImageFolderOptions {
  Transform transform{};  // gets uint8 [3, height, width]; null: samples are the images themselves
  PictureLimits limits{};
};

// Sample i is {image, class number as int64 []}. Classes are the names of the folders in `root`,
// sorted by their bytes. A class has all image files below its folder, in torchvision's order: by
// the path of their folder, then by their name. Links are followed.
class ImageFolder final : public Dataset {
 public:
  struct File {
    std::string path;
    std::int64_t target;
  };

  // Reads names only. Files with the suffixes .jpg, .jpeg and .png, in upper or lower case, are
  // images; it ignores others. Throws kNotFound if the root has no folders or a class has no
  // images; kIo if a folder cannot be read; and kNotImplemented for a file that torchvision would
  // read and dlrun cannot (.bmp, .webp, ...), because leaving it out would change the samples'
  // numbers.
  explicit ImageFolder(const std::string& root, ImageFolderOptions options = {});

  std::int64_t size() const noexcept override { return static_cast<std::int64_t>(files_.size()); }
  // Throws kIndex for an index outside the dataset, what read_picture() throws, with the file's
  // path, and what the transform throws.
  Sample get(std::int64_t index) const override;

  const std::vector<std::string>& classes() const noexcept { return classes_; }
  const std::vector<File>& files() const noexcept { return files_; }

 private:
  std::vector<std::string> classes_;
  std::vector<File> files_;
  ImageFolderOptions options_;
};

}  // namespace dl::data
