#include "examples/train_image/choices/task.h"

#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "nn/data/readers/images.h"

namespace dl::examples {
namespace {

using data::Split;

Task make_task(data::LabelledImages train, data::LabelledImages test,
               const data::ImageOptions& images, nn::models::BookCNNOptions model) {
  return {.train = data::ImageDataset(std::move(train), images),
          .test = data::ImageDataset(std::move(test), images),
          .model = model};
}

// MNIST's file format, one channel, brought to the size that the model is made for.
Task grey(const std::string& dir, float mean, float std) {
  data::LabelledImages train = data::read_mnist(dir, Split::kTrain);
  return make_task(std::move(train), data::read_mnist(dir, Split::kTest),
                   {.size = data::ImageSize{28, 28}, .mean = {mean}, .std = {std}},
                   {.channels = 1, .size = 28});
}

}  // namespace

std::string shipped_digits() {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  return (program.parent_path().parent_path() / "share/dlrun/data/digits").string();
}

Task load_task(const std::string& dataset, const std::string& data_dir) {
  if (dataset == "digits") {
    return grey(data_dir.empty() ? shipped_digits() : data_dir, 0.3055F, 0.3761F);
  }
  DL_CHECK(!data_dir.empty(), kInvalidArgument,
           "--dataset {} needs --data-dir, the folder with its files; only the digits come with "
           "dlrun",
           dataset);
  if (dataset == "mnist") return grey(data_dir, 0.1307F, 0.3081F);
  if (dataset == "fashion-mnist") return grey(data_dir, 0.2860F, 0.3530F);
  DL_CHECK(dataset == "cifar10", kInvalidArgument,
           "got dataset {}, wanted digits, mnist, fashion-mnist or cifar10", dataset);
  return make_task(data::read_cifar10(data_dir, Split::kTrain),
                   data::read_cifar10(data_dir, Split::kTest),
                   {.mean = {0.4914F, 0.4822F, 0.4465F}, .std = {0.2470F, 0.2435F, 0.2616F}},
                   {.channels = 3, .size = 32});
}

}  // namespace dl::examples
