#include "nn/data/readers/images.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "nn/data/readers/file.h"

namespace dl::data {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void check_labels(std::span<const std::uint8_t> labels, std::int64_t classes,
                  std::string_view name) {
  const auto bad = std::ranges::find_if(labels, [&](std::uint8_t l) { return l >= classes; });
  DL_CHECK(bad == labels.end(), kParse, "{}: sample {} has label {}, wanted 0 to {}", name,
           bad - labels.begin(), *bad, classes - 1);
}

// Appends records of `labels` label bytes and an image; the last label byte is used.
void append_cifar(std::span<const std::byte> bytes, std::string_view name, std::size_t labels,
                  LabelledImages& images) {
  images.channels = 3;
  images.height = 32;
  images.width = 32;
  const std::size_t image = images.image_bytes();
  const std::size_t record = labels + image;
  DL_CHECK(!bytes.empty() && bytes.size() % record == 0, kParse,
           "{} has {} bytes, wanted a multiple of {} ({} and 3 x 32 x 32 values a record)", name,
           bytes.size(), record, labels == 1 ? "a label" : "two labels");
  const std::size_t count = bytes.size() / record;
  const std::size_t before = images.labels.size();
  images.pixels.reserve(images.pixels.size() + count * image);
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const std::byte> one = bytes.subspan(i * record, record);
    images.labels.push_back(std::to_integer<std::uint8_t>(one[labels - 1]));
    images.pixels.insert(images.pixels.end(), one.begin() + static_cast<std::ptrdiff_t>(labels),
                         one.end());
  }
  images.count += static_cast<std::int64_t>(count);
  check_labels(std::span(images.labels).subspan(before), images.classes, name);
}

// Reads the files from `dir`/`archive_folder`, which the published archive unpacks to, if it
// exists, else from `dir`.
LabelledImages read_cifar(const std::string& dir, std::string_view archive_folder,
                          std::span<const std::string_view> files,
                          void (*append)(std::span<const std::byte>, std::string_view,
                                         LabelledImages&)) {
  // A limit far above the published files, which have at most 50,000 records (154 MB).
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  const std::string unpacked = fmt::format("{}/{}", dir, archive_folder);
  const std::string& folder = ::access(unpacked.c_str(), F_OK) == 0 ? unpacked : dir;
  LabelledImages images;
  for (const std::string_view file : files) {
    const std::string path = fmt::format("{}/{}", folder, file);
    append(read_file(path, kMostBytes), path, images);
  }
  return images;
}

}  // namespace

LabelledImages join_mnist(IdxArray images, std::string_view images_name, const IdxArray& labels,
                          std::string_view labels_name) {
  DL_CHECK(images.dtype == DType::kU8 && images.shape.size() == 3 && images.shape[1] > 0 &&
               images.shape[2] > 0,
           kParse, "{} holds {} {}, wanted images uint8 [count, height, width]", images_name,
           name_of(images.dtype), shape_text(images.shape));
  DL_CHECK(labels.dtype == DType::kU8 && labels.shape.size() == 1, kParse,
           "{} holds {} {}, wanted labels uint8 [count]", labels_name, name_of(labels.dtype),
           shape_text(labels.shape));
  DL_CHECK(images.shape[0] == labels.shape[0], kParse, "{} holds {} images, {} holds {} labels",
           images_name, images.shape[0], labels_name, labels.shape[0]);
  LabelledImages set{.count = images.shape[0],
                     .channels = 1,
                     .height = images.shape[1],
                     .width = images.shape[2],
                     .pixels = std::move(images.bytes),
                     .labels = {}};
  const auto* first = reinterpret_cast<const std::uint8_t*>(labels.bytes.data());
  set.labels.assign(first, first + labels.bytes.size());
  check_labels(set.labels, set.classes, labels_name);
  return set;
}

LabelledImages read_mnist(const std::string& dir, Split split, ReadLimits limits) {
  const std::string prefix = dir + (split == Split::kTrain ? "/train-" : "/t10k-");
  const std::string images = prefix + "images-idx3-ubyte";
  const std::string labels = prefix + "labels-idx1-ubyte";
  IdxArray pixels = read_idx(images, limits);
  return join_mnist(std::move(pixels), images, read_idx(labels, limits), labels);
}

void append_cifar10(std::span<const std::byte> bytes, std::string_view name,
                    LabelledImages& images) {
  images.classes = 10;
  append_cifar(bytes, name, 1, images);
}

LabelledImages read_cifar10(const std::string& dir, Split split) {
  static constexpr std::string_view kTrain[] = {"data_batch_1.bin", "data_batch_2.bin",
                                                "data_batch_3.bin", "data_batch_4.bin",
                                                "data_batch_5.bin"};
  static constexpr std::string_view kTest[] = {"test_batch.bin"};
  return read_cifar(dir, "cifar-10-batches-bin",
                    split == Split::kTrain ? std::span<const std::string_view>(kTrain) : kTest,
                    append_cifar10);
}

void append_cifar100(std::span<const std::byte> bytes, std::string_view name,
                     LabelledImages& images) {
  images.classes = 100;
  append_cifar(bytes, name, 2, images);
}

LabelledImages read_cifar100(const std::string& dir, Split split) {
  const std::string_view file = split == Split::kTrain ? "train.bin" : "test.bin";
  return read_cifar(dir, "cifar-100-binary", std::span(&file, 1), append_cifar100);
}

}  // namespace dl::data
