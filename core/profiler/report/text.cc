#include "core/profiler/report/text.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <span>
#include <system_error>

#include "core/base/error.h"
#include "core/base/system/atomic_file.h"
#include "core/base/text/printable.h"
#include "core/base/text/utf8.h"
#include "core/profiler/recording.h"

namespace dl::profiler {

std::string json_string(std::string_view text) {
  std::string json = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    const auto c = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      json += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      json += '\\';
      json += text[i];
    } else if (c < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(json), "\\u{:04x}", c);
    } else {
      json += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return json += '"';
}

std::string time_text(double ns) {
  if (ns >= 1e9) return fmt::format("{:.3f}s", ns / 1e9);
  if (ns >= 1e6) return fmt::format("{:.3f}ms", ns / 1e6);
  return fmt::format("{:.3f}us", ns / 1e3);
}

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.2f}%", 100 * part / whole) : "NaN";
}

std::string bytes_text(std::int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  constexpr double kKiB = 1024;
  if (std::abs(size) >= kKiB * kKiB * kKiB) {
    return fmt::format("{:.2f} GB", size / (kKiB * kKiB * kKiB));
  }
  if (std::abs(size) >= kKiB * kKiB) return fmt::format("{:.2f} MB", size / (kKiB * kKiB));
  if (std::abs(size) >= kKiB) return fmt::format("{:.2f} KB", size / kKiB);
  return fmt::format("{} B", bytes);
}

void write_file(const std::string& path, std::string_view content) {
  std::error_code none;
  const auto kind = std::filesystem::status(path, none).type();
  if (kind == std::filesystem::file_type::regular ||
      kind == std::filesystem::file_type::not_found) {
    AtomicFile file(path);
    file.write(std::as_bytes(std::span(content)));
    return file.commit();
  }
  // A pipe or a device, as /dev/stdout.
  const std::string what = "profiler: cannot write " + quoted_name(path);
  std::FILE* const file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) throw_errno(errno, what);
  const bool is_written = std::fwrite(content.data(), 1, content.size(), file) == content.size() &&
                          std::fflush(file) == 0;
  const int error = errno;
  if (std::fclose(file) != 0 && is_written) throw_errno(errno, what);
  if (!is_written) throw_errno(error, what);
}

std::string_view name_of(Category category) noexcept {
  constexpr std::string_view kNames[] = {"cpu_op",    "backward", "user_annotation", "step",
                                         "optimizer", "data",     "communication",   "memory"};
  return kNames[static_cast<std::size_t>(category)];
}

std::string ThreadLog::shapes_text(const Event& event) const {
  std::string text = "[";
  std::size_t at = event.first_shape;
  for (std::uint32_t s = 0; s < event.shapes; ++s) {
    text += s == 0 ? "[" : ", [";
    const auto dims = static_cast<std::size_t>(shapes[at++]);
    for (std::size_t d = 0; d < dims; ++d) {
      fmt::format_to(std::back_inserter(text), "{}{}", d == 0 ? "" : ", ", shapes[at++]);
    }
    text += ']';
  }
  return text += ']';
}

}  // namespace dl::profiler
