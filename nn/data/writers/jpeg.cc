// jpeglib.h needs these types.
#include <cstddef>
#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include <array>
#include <csetjmp>
#include <cstdlib>

#include "core/base/error.h"
#include "nn/data/writers/encoders.h"

namespace dl::data {
namespace {

// A JPEG file that grows in memory, and libjpeg's state. libjpeg reports errors by longjmp, so
// functions that call it have no local variables with destructors.
class JpegWriter {
 public:
  JpegWriter() {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = fail;
    errors_.emit_message = [](j_common_ptr, int) {};
    jpeg_.client_data = this;
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;
  ~JpegWriter() {
    jpeg_destroy_compress(&jpeg_);
    std::free(bytes_);
  }

  // False if libjpeg reports an error: text().
  bool write(const Rows& rows) {
    constexpr int kQuality = 75;
    if (setjmp(failed_) != 0) return false;
    jpeg_create_compress(&jpeg_);
    jpeg_mem_dest(&jpeg_, &bytes_, &size_);
    jpeg_.image_width = static_cast<JDIMENSION>(rows.width);
    jpeg_.image_height = static_cast<JDIMENSION>(rows.height);
    jpeg_.input_components = 3;
    jpeg_.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg_);  // colours at half the width and height
    jpeg_set_quality(&jpeg_, kQuality, TRUE);
    jpeg_start_compress(&jpeg_, TRUE);
    while (jpeg_.next_scanline < jpeg_.image_height) {
      auto* row = const_cast<JSAMPLE*>(rows.pixels) +
                  static_cast<std::size_t>(jpeg_.next_scanline) * 3 * jpeg_.image_width;
      jpeg_write_scanlines(&jpeg_, &row, 1);
    }
    jpeg_finish_compress(&jpeg_);
    return true;
  }
  std::vector<std::byte> bytes() const {
    const auto* const first = reinterpret_cast<const std::byte*>(bytes_);
    return {first, first + size_};
  }
  const char* text() const noexcept { return text_.data(); }

 private:
  [[noreturn]] static void fail(j_common_ptr jpeg) {
    auto& self = *static_cast<JpegWriter*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, self.text_.data());
    std::longjmp(self.failed_, 1);
  }

  jpeg_compress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf failed_{};
  unsigned char* bytes_ = nullptr;
  unsigned long size_ = 0;  // NOLINT(google-runtime-int): libjpeg's type
  std::array<char, JMSG_LENGTH_MAX> text_{};
};

}  // namespace

std::vector<std::byte> encode_jpeg(const Rows& rows, std::string_view name) {
  constexpr std::int64_t kMostSide = JPEG_MAX_DIMENSION;
  DL_CHECK(rows.width <= kMostSide && rows.height <= kMostSide, kShape,
           "{}: a JPEG file has at most {} x {} pixels, got {} x {}; save a PNG file", name,
           kMostSide, kMostSide, rows.width, rows.height);
  JpegWriter writer;
  DL_CHECK(writer.write(rows), kInternal, "{}: libjpeg could not write it: {}", name,
           writer.text());
  return writer.bytes();
}

}  // namespace dl::data
