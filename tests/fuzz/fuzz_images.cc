// Labelled images: the input's first byte says how long a first part is; the parts are read as
// MNIST's two files, and the whole as a CIFAR-10 file. Any bytes give images with labels in range
// or an Error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/error.h"
#include "nn/data/readers/images.h"

namespace {

void check(const dl::data::LabelledImages& images) {
  const auto count = static_cast<std::size_t>(images.count);
  if (images.labels.size() != count || images.pixels.size() != count * images.image_bytes() ||
      !std::ranges::all_of(images.labels, [&](std::uint8_t l) { return l < images.classes; })) {
    __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  constexpr dl::data::ReadLimits kLimits{.max_bytes = std::size_t{1} << 20};
  const std::size_t part = std::min<std::size_t>(data[0], bytes.size());
  try {
    check(dl::data::join_mnist(dl::data::parse_idx(bytes.first(part), "images", kLimits), "images",
                               dl::data::parse_idx(bytes.subspan(part), "labels", kLimits),
                               "labels"));
  } catch (const dl::Error&) {
  }
  try {
    dl::data::LabelledImages images;
    dl::data::append_cifar10(bytes, "cifar", images);
    check(images);
  } catch (const dl::Error&) {
  }
  return 0;
}
