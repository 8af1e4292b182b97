// bench_data: how long the transforms of the book's chapter 5 take on 256 images of CIFAR's size,
// beside torchvision's (compare.py). One thread.
//
//     bench_data [--clock wall|processor]
//
// Prints a line for each transform, and one for all of them: the name, and the seconds of a pass
// over the images, the least of three. A transform gets what the one before it returned.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/device/parallel.h"
#include "core/tensor/factories.h"
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

int run(int argc, char** argv) {
  const bool processor = argc == 3 && std::strcmp(argv[2], "processor") == 0;
  DL_CHECK(argc == 1 || (argc == 3 && std::strcmp(argv[1], "--clock") == 0 &&
                         (processor || std::strcmp(argv[2], "wall") == 0)),
           kInvalidArgument, "usage: bench_data [--clock wall|processor]");
  const clockid_t clock = processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  dl::set_num_threads(1);
  const std::pair<const char*, dl::data::Transform> rows[] = {
      {"Resize(255)", tf::Resize(255)},
      {"CenterCrop(224)", tf::CenterCrop(224)},
      {"RandomHorizontalFlip(0.5)", tf::RandomHorizontalFlip(0.5)},
      {"RandomRotation(20)", tf::RandomRotation(20)},
      {"GaussianBlur(3)", tf::GaussianBlur(3)},
      {"ToTensor()", tf::ToTensor()},
      {"Normalize", tf::Normalize({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F})}};
  std::vector<Tensor> images = cifar_images();
  std::vector<dl::data::Transform> all;
  for (const auto& [name, transform] : rows) {
    all.push_back(transform);
    if (std::strcmp(name, "ToTensor()") == 0) {  // returns these floats; the row is of bytes
      std::vector<Tensor> bytes(images.size());
      std::ranges::transform(images, bytes.begin(),
                             [](const Tensor& image) { return image.mul(255).to(dl::DType::kU8); });
      std::printf("ToTensor() of u8|%.9f\n", seconds_of(transform, bytes, clock));
      continue;
    }
    std::printf("%s|%.9f\n", name, seconds_of(transform, images, clock));
  }
  images = cifar_images();
  std::printf("all seven|%.9f\n", seconds_of(tf::Compose(all), images, clock));
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
