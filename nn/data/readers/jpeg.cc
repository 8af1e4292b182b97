#include <turbojpeg.h>

#include <cstdint>
#include <memory>

#include "core/base/error.h"
#include "nn/data/readers/decoders.h"

namespace dl::data {
namespace {

// A block of 8 x 8 pixels of a Huffman-coded file takes at least one bit.
constexpr std::uint64_t kMostPixelsOfByte = 8 * 64;

// TurboJPEG's number for a subsampling or colours that it does not know.
constexpr int kUnknown = -1;

}  // namespace

bool can_read_jpeg() noexcept {
  return true;
}

Picture decode_jpeg(std::span<const std::byte> bytes, std::string_view name, PictureLimits limits) {
  const std::unique_ptr<void, int (*)(tjhandle)> jpeg(tjInitDecompress(), tjDestroy);
  DL_CHECK(jpeg != nullptr, kInternal, "{}: TurboJPEG did not start: {}", name, tjGetErrorStr());
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = kUnknown;
  const bool has_header = tjDecompressHeader3(jpeg.get(), data, bytes.size(), &width, &height,
                                              &subsampling, &colours) == 0;
  // For a valid header whose subsampling it does not know, TurboJPEG fails and sets the numbers.
  const bool is_odd = !has_header && subsampling == kUnknown && width > 0 && height > 0;
  if (has_header || is_odd) {
    DL_CHECK(colours != TJCS_CMYK && colours != TJCS_YCCK, kNotImplemented,
             "{} is a JPEG file in CMYK, which is not read; convert it to RGB", name);
  }
  DL_CHECK(!is_odd, kNotImplemented,
           "{} is a JPEG file with a chroma subsampling that is not read; save it anew with 4:4:4, "
           "4:2:2 or 4:2:0",
           name);
  DL_CHECK(has_header, kParse, "{} is a damaged JPEG file: {}", name, tjGetErrorStr2(jpeg.get()));
  check_size(height, width, name, limits);
  DL_CHECK(static_cast<std::uint64_t>(height) * static_cast<std::uint64_t>(width) <=
               kMostPixelsOfByte * bytes.size(),
           kParse, "{} announces {} x {} pixels, its {} bytes can hold at most {}", name, width,
           height, bytes.size(), kMostPixelsOfByte * bytes.size());
  Picture picture = picture_of(height, width, name, limits);
  std::vector<unsigned char> rgb(picture.pixels.size());
  // A truncated file is only a warning to TurboJPEG; it must be an error here. A small file with
  // very many scans could take hours, so their number is limited.
  constexpr int kStrict = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  DL_CHECK(tjDecompress2(jpeg.get(), data, bytes.size(), rgb.data(), width, 0, height, TJPF_RGB,
                         kStrict) == 0,
           kParse, "{} is a damaged JPEG file: {}", name, tjGetErrorStr2(jpeg.get()));
  for (std::int64_t y = 0; y < height; ++y) put_row(rgb.data() + 3 * y * width, y, picture);
  return picture;
}

}  // namespace dl::data
