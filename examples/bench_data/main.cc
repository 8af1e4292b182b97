// bench_data: how long the transforms of the book's chapter 5 take, beside torchvision's
// (compare.py).
//
//     bench_data [--clock wall|processor]
//     bench_data --folder IMAGES [--workers N] [--passes 3]
//
// Prints a line for each transform on 256 images of CIFAR's size, and one for all of them: the
// name, and the seconds of a pass over the images, the least of three. A transform gets what the
// one before it returned. One thread. With --folder prints the images a second of the fastest pass
// of a DataLoader over image files in one folder for each class, with all transforms.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/base/error.h"
#include "core/device/parallel.h"
#include "core/tensor/factories.h"
#include "nn/data/data_loader.h"
#include "nn/data/datasets/image_folder.h"
#include "nn/data/transforms/transforms.h"

namespace {

using dl::Tensor;
namespace tf = dl::data::transforms;

constexpr int kImages = 256;

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::vector<Tensor> cifar_images() {
  std::vector<Tensor> images;
  std::int64_t n = 0;
  for (int i = 0; i < kImages; ++i) {
    const Tensor image = dl::empty({3, 32, 32});
    for (float* x = image.data<float>(); x < image.data<float>() + image.numel(); ++x, ++n) {
      *x = static_cast<float>((n * 37 + 11) % 256) / 255.0F;
    }
    images.push_back(image);
  }
  return images;
}

// Returns the seconds of a pass; replaces `images` by the results.
double seconds_of(const dl::data::Transform& transform, std::vector<Tensor>& images,
                  clockid_t clock) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<Tensor> made(images.size());
  for (int pass = 0; pass < 3; ++pass) {
    const double start = now(clock);
    std::ranges::transform(images, made.begin(), transform);
    least = std::min(least, now(clock) - start);
  }
  images = std::move(made);
  return least;
}

using Rows = std::vector<std::pair<const char*, dl::data::Transform>>;

Rows transforms() {
  return {{"Resize(255)", tf::Resize(255)},
          {"CenterCrop(224)", tf::CenterCrop(224)},
          {"RandomHorizontalFlip(0.5)", tf::RandomHorizontalFlip(0.5)},
          {"RandomRotation(20)", tf::RandomRotation(20)},
          {"GaussianBlur(3)", tf::GaussianBlur(3)},
          {"ToTensor()", tf::ToTensor()},
          {"Normalize", tf::Normalize({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F})}};
}

dl::data::Transform all_of(const Rows& rows) {
  std::vector<dl::data::Transform> all;
  for (const auto& [name, transform] : rows) all.push_back(transform);
  return tf::Compose(std::move(all));
}

void time_transforms(clockid_t clock) {
  const Rows rows = transforms();
  std::vector<Tensor> images = cifar_images();
  for (const auto& [name, transform] : rows) {
    if (std::string_view(name) == "ToTensor()") {  // returns these floats; the row is of bytes
      std::vector<Tensor> bytes(images.size());
      std::ranges::transform(images, bytes.begin(),
                             [](const Tensor& image) { return image.mul(255).to(dl::DType::kU8); });
      std::printf("ToTensor() of u8|%.9f\n", seconds_of(transform, bytes, clock));
      continue;
    }
    std::printf("%s|%.9f\n", name, seconds_of(transform, images, clock));
  }
  images = cifar_images();
  std::printf("all seven|%.9f\n", seconds_of(all_of(rows), images, clock));
}

void time_loader(const std::string& folder, int workers, int passes) {
  const dl::data::ImageFolder images(folder, {.transform = all_of(transforms())});
  dl::data::DataLoader loader(images, {.batch_size = 32,
                                       .shuffle = true,
                                       .num_workers = workers,
                                       .persistent_workers = workers > 0});
  double least = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < passes; ++pass) {
    const double start = now(CLOCK_MONOTONIC);
    std::int64_t count = 0;
    for (const auto& batch : loader) count += batch[0].size(0);
    DL_CHECK(count == images.size(), kInternal, "bench_data: {} of {} images", count,
             images.size());
    least = std::min(least, now(CLOCK_MONOTONIC) - start);
  }
  std::printf("%.3f\n", static_cast<double>(images.size()) / least);
}

int run(int argc, char** argv) {
  CLI::App app("Times the transforms of the book's chapter 5.", "bench_data");
  std::string clock = "wall";
  std::string folder;
  int workers = 0;
  int passes = 3;
  app.add_option("--clock", clock, "wall or processor (wall)")
      ->check(CLI::IsMember({"wall", "processor"}));
  auto* const files =
      app.add_option("--folder", folder, "time a DataLoader over these images: FOLDER/CLASS/*.jpg");
  app.add_option("--workers", workers, "threads that read (0: the caller's)")
      ->check(CLI::Range(0, 1024))
      ->needs(files);
  app.add_option("--passes", passes, "over the images; the fastest counts (3)")
      ->check(CLI::Range(1, 1'000'000))
      ->needs(files);
  CLI11_PARSE(app, argc, argv);
  dl::set_num_threads(1);
  if (folder.empty()) {
    time_transforms(clock == "processor" ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC);
  } else {
    time_loader(folder, workers, passes);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_data: %s\n", error.what());
    return 1;
  }
}
