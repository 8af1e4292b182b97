#include "examples/train_image/choices/task.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "examples/support/training/choices/rows.h"
#include "examples/train_image/choices/augment.h"
#include "nn/data/datasets/image_folder.h"
#include "nn/data/readers/images.h"

namespace dl::examples {
namespace {

namespace fs = std::filesystem;
namespace tf = data::transforms;
using data::LabelledImages;
using data::Split;

// A set that fits into memory.
struct SetRow {
  std::string_view name;
  LabelledImages (*read)(const std::string& dir, Split split);
  std::int64_t side;          // to which images are resized for a model that takes it
  std::array<float, 3> mean;  // of the training set; grey images have the first one
  std::array<float, 3> std;
};

LabelledImages read_idx_images(const std::string& dir, Split split) {
  return data::read_mnist(dir, split);
}

constexpr SetRow kSets[] = {
    {"digits", read_idx_images, 28, {0.3055F}, {0.3761F}},
    {"mnist", read_idx_images, 28, {0.1307F}, {0.3081F}},
    {"fashion-mnist", read_idx_images, 28, {0.2860F}, {0.3530F}},
    {"cifar10", data::read_cifar10, 32, {0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}},
    {"cifar100", data::read_cifar100, 32, {0.5071F, 0.4866F, 0.4409F}, {0.2673F, 0.2564F, 0.2762F}},
};

constexpr const char* kFolder = "folder";
constexpr std::int64_t kFolderSide = 224;

void append(std::vector<data::Transform>& to, std::vector<data::Transform> more) {
  for (data::Transform& one : more) to.push_back(std::move(one));
}

// Gives grey images three equal channels.
LabelledImages with_colours(LabelledImages images) {
  if (images.channels == 3) return images;
  const std::size_t bytes = images.image_bytes();
  std::vector<std::byte> pixels(images.pixels.size() * 3);
  for (std::size_t i = 0; i < images.pixels.size() / bytes; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      std::copy_n(images.pixels.data() + i * bytes, bytes,
                  pixels.data() + (i * 3 + channel) * bytes);
    }
  }
  images.pixels = std::move(pixels);
  images.channels = 3;
  return images;
}

std::unique_ptr<data::Dataset> make_set(LabelledImages images, std::int64_t side,
                                        const std::vector<float>& mean,
                                        const std::vector<float>& std, const AugmentRow& augment) {
  const bool fits = images.height == side && images.width == side;
  const data::ImageSize size{side, side};
  std::vector<data::Transform> changes = augment.make(side);
  if (changes.empty()) {
    data::ImageOptions options{.mean = mean, .std = std};
    if (!fits) options.size = size;
    return std::make_unique<data::ImageDataset>(std::move(images), options);
  }
  std::vector<data::Transform> all;
  if (!fits && !augment.resizes) all.emplace_back(tf::Resize(size));
  append(all, std::move(changes));
  append(all, {tf::ToTensor(), tf::Normalize(mean, std)});
  return std::make_unique<data::ImageDataset>(
      std::move(images), data::ImageOptions{.transform = tf::Compose(std::move(all))});
}

Task load_set(const SetRow& set, const Options& options) {
  const ModelRow& model = find_model(options.model);
  const bool shipped = set.name == "digits" && options.data_dir.empty();
  const std::string dir = shipped ? shipped_digits() : options.data_dir;
  LabelledImages train = set.read(dir, Split::kTrain);
  LabelledImages test = set.read(dir, Split::kTest);
  const auto values = static_cast<std::size_t>(train.channels);
  const std::vector<float> mean(set.mean.begin(), set.mean.begin() + values);
  const std::vector<float> std(set.std.begin(), set.std.begin() + values);
  if (model.colours) {
    train = with_colours(std::move(train));
    test = with_colours(std::move(test));
  }
  const std::int64_t side =
      options.image_size > 0 ? options.image_size : std::max(set.side, model.least_side);
  Task task{.input = {.channels = train.channels, .side = side, .classes = train.classes}};
  task.train = make_set(std::move(train), side, mean, std, find_augmentation(options.augment));
  task.test = make_set(std::move(test), side, mean, std, find_augmentation("none"));
  return task;
}

data::Transform folder_transform(std::int64_t side, const AugmentRow& augment) {
  std::vector<data::Transform> all;
  // The test images of torchvision's recipes: a seventh more than is kept.
  if (!augment.resizes) append(all, {tf::Resize(side * 8 / 7), tf::CenterCrop(side)});
  append(all, augment.make(side));
  append(all, {tf::ToTensor(), tf::Normalize({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F})});
  return tf::Compose(std::move(all));
}

Task load_folder(const Options& options) {
  const std::int64_t side = options.image_size > 0 ? options.image_size : kFolderSide;
  const fs::path root(options.data_dir);
  std::error_code ignored;
  const fs::path test_dir = root / (fs::is_directory(root / "val", ignored) ? "val" : "test");
  auto train = std::make_unique<data::ImageFolder>(
      (root / "train").string(),
      data::ImageFolderOptions{.transform =
                                   folder_transform(side, find_augmentation(options.augment))});
  auto test = std::make_unique<data::ImageFolder>(
      test_dir.string(),
      data::ImageFolderOptions{.transform = folder_transform(side, find_augmentation("none"))});
  DL_CHECK(train->classes() == test->classes(), kInvalidArgument,
           "{} and {} have different classes: a class is a folder of images, and both need the "
           "same ones",
           (root / "train").string(), test_dir.string());
  Task task{.input = {.channels = 3,
                      .side = side,
                      .classes = static_cast<std::int64_t>(train->classes().size())}};
  task.train = std::move(train);
  task.test = std::move(test);
  return task;
}

}  // namespace

std::string shipped_digits() {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  return (program.parent_path().parent_path() / "share/dlrun/data/digits").string();
}

std::vector<std::string> dataset_names() {
  std::vector<std::string> names = names_of(std::span<const SetRow>(kSets));
  names.emplace_back(kFolder);
  return names;
}

Task load_task(const Options& options) {
  DL_CHECK(!options.data_dir.empty() || options.dataset == "digits", kInvalidArgument,
           "--dataset {} needs --data-dir, the folder with its files; only the digits come with "
           "dlrun",
           options.dataset);
  if (options.dataset == kFolder) return load_folder(options);
  return load_set(find_row(std::span<const SetRow>(kSets), "--dataset", options.dataset), options);
}

}  // namespace dl::examples
