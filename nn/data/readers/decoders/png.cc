#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/base/text/inflation.h"
#include "nn/data/readers/decoders/decoders.h"

namespace dl::data {
namespace {

// A PNG file in memory, and libpng's state. libpng reports errors by longjmp, so functions that
// call it have no local variables with destructors.
class PngReader {
 public:
  PngReader(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes), name_(name) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore);
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    DL_CHECK(info_ != nullptr, kInternal, "{}: libpng did not start", name);
    png_set_read_fn(png_, this, give);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  void read_info() {
    check(run([](PngReader& self) {
      png_read_info(self.png_, self.info_);
      self.packed_ = std::uint64_t{png_get_rowbytes(self.png_, self.info_)} *
                     png_get_image_height(self.png_, self.info_);
      self.is_deep_grey_ = png_get_bit_depth(self.png_, self.info_) == 16 &&
                           png_get_color_type(self.png_, self.info_) == PNG_COLOR_TYPE_GRAY;
      png_set_expand(self.png_);  // palettes to colours, grey of 1, 2 and 4 bits to 8
      png_set_strip_alpha(self.png_);
      if (!self.is_deep_grey_) {
        png_set_strip_16(self.png_);
        png_set_gray_to_rgb(self.png_);
      }
      self.passes_ = png_set_interlace_handling(self.png_);
      png_read_update_info(self.png_, self.info_);
    }));
  }
  // Throws unless the file can hold the pixels that it announces.
  void check_size() const {
    DL_CHECK(can_inflate_to(bytes_.size(), packed_), kParse,
             "{} is truncated: it announces {} bytes of pixels, there can be at most {}", name_,
             packed_, kMostInflation * bytes_.size());
  }
  std::int64_t height() const noexcept { return png_get_image_height(png_, info_); }
  std::int64_t width() const noexcept { return png_get_image_width(png_, info_); }

  // Writes 3 bytes per pixel to `rgb`, which has room for them.
  void read_rows(std::vector<unsigned char>& rgb) {
    rows_ = rgb.data();
    check(run([](PngReader& self) {
      const std::size_t row = 3 * static_cast<std::size_t>(self.width());
      for (int pass = 0; pass < self.passes_; ++pass) {
        for (std::int64_t y = 0; y < self.height(); ++y) {
          png_read_row(self.png_, self.rows_ + static_cast<std::size_t>(y) * row, nullptr);
        }
      }
      png_read_end(self.png_, nullptr);
    }));
    if (is_deep_grey_) limit_deep_grey(rgb);
  }

 private:
  // Samples of 16 bits, at the beginning of each row, to colours: min(sample, 255), as Pillow
  // converts its mode "I;16".
  void limit_deep_grey(std::vector<unsigned char>& rgb) const noexcept {
    for (std::int64_t y = 0; y < height(); ++y) {
      unsigned char* const row = rgb.data() + 3 * y * width();
      for (std::int64_t x = width(); x-- > 0;) {
        const unsigned char grey = row[2 * x] == 0 ? row[2 * x + 1] : 255;
        std::fill_n(row + 3 * x, 3, grey);
      }
    }
  }
  bool run(void (*body)(PngReader&)) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    body(*this);
    return true;
  }
  void check(bool well) const {
    DL_CHECK(well, kParse, "{} is a damaged PNG file: {}", name_, error_);
  }

  static void fail(png_structp png, png_const_charp text) {
    auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self.error_, text, sizeof(self.error_) - 1);
    png_longjmp(png, 1);
  }
  static void ignore(png_structp /*png*/, png_const_charp /*text*/) {}
  static void give(png_structp png, png_bytep out, std::size_t count) {
    auto& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > self.bytes_.size() - self.at_) png_error(png, "it ends too early");
    std::memcpy(out, self.bytes_.data() + self.at_, count);
    self.at_ += count;
  }

  std::span<const std::byte> bytes_;
  std::string_view name_;
  std::size_t at_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  bool is_deep_grey_ = false;
  std::uint64_t packed_ = 0;  // bytes of pixels in the file, inflated
  unsigned char* rows_ = nullptr;
  char error_[128] = {};
};

}  // namespace

bool can_read_png() noexcept {
  return true;
}

Picture decode_png(std::span<const std::byte> bytes, std::string_view name, PictureLimits limits) {
  PngReader png(bytes, name);
  png.read_info();
  png.check_size();
  Picture picture = picture_of(png.height(), png.width(), name, limits);
  std::vector<unsigned char> rgb(picture.pixels.size());
  png.read_rows(rgb);
  for (std::int64_t y = 0; y < picture.height; ++y) {
    put_row(rgb.data() + 3 * y * picture.width, y, picture);
  }
  return picture;
}

}  // namespace dl::data
