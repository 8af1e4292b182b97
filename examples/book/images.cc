#include "examples/book/images.h"

#include <utility>

#include "core/base/error.h"
#include "examples/train_image/choices/task.h"
#include "nn/data/readers/images.h"
#include "nn/data/transforms/transforms.h"

namespace dl::examples::book {
namespace {

using data::Split;
namespace tf = data::transforms;

// ImageNet's means and standard deviations, which the book uses.
tf::Normalize normalize(std::int64_t channels) {
  if (channels == 1) return tf::Normalize({0.485F}, {0.229F});
  return tf::Normalize({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F});
}

Images make_images(data::LabelledImages train, data::LabelledImages test, const CNNOptions& model,
                   Preparation preparation) {
  data::ImageOptions of_train{.size = data::ImageSize{model.size, model.size}};
  data::ImageOptions of_test = of_train;
  if (preparation == Preparation::kAugmented) {
    const tf::Resize resize(model.size * 255 / 224);
    const tf::CenterCrop crop(model.size);
    of_train = {.transform = tf::Compose({resize, crop, tf::RandomHorizontalFlip(0.5),
                                          tf::RandomRotation(20), tf::GaussianBlur(3),
                                          tf::ToTensor(), normalize(model.channels)})};
    of_test = {.transform = tf::Compose({resize, crop, tf::ToTensor(), normalize(model.channels)})};
  }
  return {.train = data::ImageDataset(std::move(train), of_train),
          .test = data::ImageDataset(std::move(test), of_test),
          .model = model};
}

Images read_grey(const std::string& dir, Preparation preparation) {
  data::LabelledImages train = data::read_mnist(dir, Split::kTrain);
  return make_images(std::move(train), data::read_mnist(dir, Split::kTest), {}, preparation);
}

}  // namespace

Images load_images(const Options& options, Set set, Preparation preparation) {
  if (options.digits) return read_grey(shipped_digits(), preparation);
  if (set == Set::kFashionMnist) {
    DL_CHECK(!options.data_dir.empty(), kInvalidArgument,
             "chapter {} trains on Fashion-MNIST: give the folder with train-images-idx3-ubyte.gz, "
             "train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz "
             "in --data-dir, or --digits",
             options.chapter);
    return read_grey(options.data_dir, preparation);
  }
  DL_CHECK(!options.data_dir.empty(), kInvalidArgument,
           "chapter {} trains on CIFAR-10: give the folder with data_batch_1.bin to "
           "data_batch_5.bin and test_batch.bin in --data-dir, or --digits",
           options.chapter);
  data::LabelledImages train = data::read_cifar10(options.data_dir, Split::kTrain);
  return make_images(std::move(train), data::read_cifar10(options.data_dir, Split::kTest),
                     {.channels = 3, .size = 32}, preparation);
}

}  // namespace dl::examples::book
