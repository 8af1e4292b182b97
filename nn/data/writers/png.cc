#include <png.h>

#include <csetjmp>
#include <cstring>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "nn/data/writers/encoders.h"

namespace dl::data {
namespace {

// A PNG file that grows in memory, and libpng's state. libpng reports errors by longjmp, so write()
// has no local variables with destructors.
class PngWriter {
 public:
  explicit PngWriter(std::string_view name) : name_(name) {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore);
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    DL_CHECK(info_ != nullptr, kInternal, "{}: libpng did not start", name);
    png_set_write_fn(png_, this, take, [](png_structp) {});
  }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }

  std::vector<std::byte> write(const Rows& rows) {
    const bool well = run(rows);
    DL_CHECK(well, kInternal, "{}: libpng could not write it: {}", name_, error_);
    return std::move(bytes_);
  }

 private:
  bool run(const Rows& rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(rows.width),
                 static_cast<png_uint_32>(rows.height), 8,
                 rows.channels == 4 ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    for (std::int64_t y = 0; y < rows.height; ++y) {
      png_write_row(png_, rows.pixels + y * rows.width * rows.channels);
    }
    png_write_end(png_, nullptr);
    return true;
  }

  static void fail(png_structp png, png_const_charp text) {
    auto& self = *static_cast<PngWriter*>(png_get_error_ptr(png));
    std::strncpy(self.error_, text, sizeof(self.error_) - 1);
    png_longjmp(png, 1);
  }
  static void ignore(png_structp /*png*/, png_const_charp /*text*/) {}
  static void take(png_structp png, png_bytep from, std::size_t count) {
    auto& self = *static_cast<PngWriter*>(png_get_io_ptr(png));
    bool stored = true;
    try {  // no exception may cross libpng's frames
      const auto* const first = reinterpret_cast<const std::byte*>(from);
      self.bytes_.insert(self.bytes_.end(), first, first + count);
    } catch (const std::bad_alloc&) {
      stored = false;
    }
    if (!stored) png_error(png, "out of memory");
  }

  std::string_view name_;
  std::vector<std::byte> bytes_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  char error_[128] = {};
};

}  // namespace

std::vector<std::byte> encode_png(const Rows& rows, std::string_view name) {
  return PngWriter(name).write(rows);
}

}  // namespace dl::data
