// jpeglib.h needs these types.
#include <cstddef>
#include <cstdio>
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <csetjmp>
#include <cstdint>

#include "core/base/error.h"
#include "nn/data/readers/decoders/decoders.h"

namespace dl::data {
namespace {

// A block of 8 x 8 pixels of a Huffman-coded file takes at least one bit.
constexpr std::uint64_t kMostPixelsOfByte = 8 * 64;
// A small progressive file with very many scans could take hours.
constexpr int kMostScans = 500;

// Valid files of kinds that libjpeg does not read. All other errors are damage.
bool is_of_another_kind(int code) noexcept {
  constexpr int kCodes[] = {JERR_ARITH_NOTIMPL,     JERR_BAD_PRECISION,        JERR_CCIR601_NOTIMPL,
                            JERR_NOT_COMPILED,      JERR_FRACT_SAMPLE_NOTIMPL, JERR_SOF_UNSUPPORTED,
                            JERR_CONVERSION_NOTIMPL};
  return std::ranges::find(kCodes, code) != std::end(kCodes);
}

// A JPEG file in memory, and libjpeg's state. libjpeg reports errors by longjmp, so functions that
// call it have no local variables with destructors.
class JpegReader {
 public:
  JpegReader(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes), name_(name) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = fail;
    errors_.emit_message = note;
    jpeg_.client_data = this;
    check(run([](JpegReader& self) { jpeg_create_decompress(&self.jpeg_); }));
    source_.init_source = [](j_decompress_ptr) {};
    source_.term_source = [](j_decompress_ptr) {};
    source_.fill_input_buffer = [](j_decompress_ptr jpeg) -> boolean {
      stop(jpeg, "it ends too early");
    };
    source_.skip_input_data = skip;
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source_.bytes_in_buffer = bytes.size();
    jpeg_.src = &source_;
    progress_.progress_monitor = look_at_scans;
    jpeg_.progress = &progress_;
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }

  void read_header() {
    check(run([](JpegReader& self) { jpeg_read_header(&self.jpeg_, TRUE); }));
    const int colours = jpeg_.num_components;
    DL_CHECK(colours == 1 || colours == 3 || colours == 4, kNotImplemented,
             "{} is a JPEG file with {} colour components, which is not read; wanted 1 (grey), 3 "
             "(RGB, YCbCr) or 4 (CMYK, YCCK)",
             name_, colours);
    jpeg_.out_color_space = colours == 1 ? JCS_GRAYSCALE : colours == 3 ? JCS_RGB : JCS_CMYK;
  }
  std::int64_t height() const noexcept { return jpeg_.image_height; }
  std::int64_t width() const noexcept { return jpeg_.image_width; }
  int colours() const noexcept { return jpeg_.num_components; }
  // How many times libjpeg has warned, and its first text.
  long warnings() const noexcept { return errors_.num_warnings; }
  std::string_view first_warning() const noexcept { return warning_; }

  // Writes colours() bytes a pixel.
  void read_rows(std::vector<unsigned char>& pixels) {
    rows_ = pixels.data();
    check(run([](JpegReader& self) {
      jpeg_start_decompress(&self.jpeg_);
      const std::size_t row = static_cast<std::size_t>(self.jpeg_.output_width) *
                              static_cast<std::size_t>(self.jpeg_.output_components);
      while (self.jpeg_.output_scanline < self.jpeg_.output_height) {
        JSAMPROW at = self.rows_ + self.jpeg_.output_scanline * row;
        jpeg_read_scanlines(&self.jpeg_, &at, 1);
      }
      jpeg_finish_decompress(&self.jpeg_);
    }));
  }

 private:
  bool run(void (*body)(JpegReader&)) {
    if (setjmp(back_) != 0) return false;
    body(*this);
    return true;
  }
  void check(bool well) const {
    if (well) return;
    DL_CHECK(!is_of_another_kind(errors_.msg_code), kNotImplemented,
             "{} is a JPEG file of a kind that is not read ({}); save it anew as 8-bit baseline or "
             "progressive JPEG with 4:4:4, 4:2:2 or 4:2:0",
             name_, error_);
    throw_error(ErrorKind::kParse, "{} is a damaged JPEG file: {}", name_, error_);
  }

  static JpegReader& self_of(j_common_ptr jpeg) {
    return *static_cast<JpegReader*>(jpeg->client_data);
  }
  static void fail(j_common_ptr jpeg) {
    JpegReader& self = self_of(jpeg);
    jpeg->err->format_message(jpeg, self.error_);
    longjmp(self.back_, 1);
  }
  [[noreturn]] static void stop(j_decompress_ptr jpeg, const char* why) {
    JpegReader& self = self_of(reinterpret_cast<j_common_ptr>(jpeg));
    self.errors_.msg_code = JERR_INPUT_EOF;
    std::snprintf(self.error_, sizeof self.error_, "%s", why);
    longjmp(self.back_, 1);
  }
  // A level below 0 is a warning; others are traces.
  static void note(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    JpegReader& self = self_of(jpeg);
    if (self.errors_.num_warnings++ == 0) jpeg->err->format_message(jpeg, self.warning_);
  }
  static void skip(j_decompress_ptr jpeg, long count) {
    if (count <= 0) return;
    jpeg_source_mgr& source = *jpeg->src;
    const auto bytes = static_cast<std::size_t>(count);
    if (bytes > source.bytes_in_buffer) stop(jpeg, "it ends too early");
    source.next_input_byte += bytes;
    source.bytes_in_buffer -= bytes;
  }
  static void look_at_scans(j_common_ptr jpeg) {
    const auto reader = reinterpret_cast<j_decompress_ptr>(jpeg);
    if (reader->input_scan_number > kMostScans) stop(reader, "it has more than 500 scans");
  }

  std::span<const std::byte> bytes_;
  std::string_view name_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf back_{};
  unsigned char* rows_ = nullptr;
  char error_[JMSG_LENGTH_MAX] = {};
  char warning_[JMSG_LENGTH_MAX] = {};
};

// 255 * a * b for numbers in 0..1 that stand for 0..255, rounded as Pillow does.
int product_of(int a, int b) noexcept {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// One row to RGB. CMYK files are taken to be inverted, as Adobe writes them and Pillow reads them.
void to_rgb(const unsigned char* row, int colours, std::int64_t width,
            unsigned char* rgb) noexcept {
  for (std::int64_t x = 0; x < width; ++x) {
    for (int c = 0; c < 3; ++c) {
      if (colours == 4) {
        const int light = row[4 * x + 3];
        rgb[3 * x + c] = static_cast<unsigned char>(
            std::max(0, light - product_of(255 - row[4 * x + c], light)));
      } else {
        rgb[3 * x + c] = row[colours * x + (colours == 1 ? 0 : c)];
      }
    }
  }
}

}  // namespace

bool can_read_jpeg() noexcept {
  return true;
}

Picture decode_jpeg(std::span<const std::byte> bytes, std::string_view name, PictureLimits limits) {
  JpegReader jpeg(bytes, name);
  jpeg.read_header();
  const std::int64_t height = jpeg.height();
  const std::int64_t width = jpeg.width();
  check_size(height, width, name, limits);
  DL_CHECK(static_cast<std::uint64_t>(height) * static_cast<std::uint64_t>(width) <=
               kMostPixelsOfByte * bytes.size(),
           kParse, "{} announces {} x {} pixels, its {} bytes can hold at most {}", name, width,
           height, bytes.size(), kMostPixelsOfByte * bytes.size());
  Picture picture = picture_of(height, width, name, limits);
  const int colours = jpeg.colours();
  std::vector<unsigned char> pixels(static_cast<std::size_t>(height * width * colours));
  jpeg.read_rows(pixels);
  std::vector<unsigned char> rgb(static_cast<std::size_t>(3 * width));
  for (std::int64_t y = 0; y < height; ++y) {
    const unsigned char* row = pixels.data() + y * width * colours;
    if (colours != 3) {
      to_rgb(row, colours, width, rgb.data());
      row = rgb.data();
    }
    put_row(row, y, picture);
  }
  if (jpeg.warnings() > 0) {
    picture.warnings = jpeg.warnings();
    count_warned(name, jpeg.first_warning());
  }
  return picture;
}

}  // namespace dl::data
