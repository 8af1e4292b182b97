#include "nn/data/readers/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "core/base/error.h"
#include "core/base/system/unique_fd.h"

namespace dl::data {

std::vector<std::byte> read_file(const std::string& path, std::size_t max_bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw_errno(errno, fmt::format("open {}", path));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) throw_errno(errno, fmt::format("stat {}", path));
  DL_CHECK(S_ISREG(info.st_mode), kIo, "{} is not a regular file", path);
  const auto size = static_cast<std::size_t>(info.st_size);
  DL_CHECK(size <= max_bytes, kParse, "{} has {} bytes, wanted at most {}", path, size, max_bytes);
  std::vector<std::byte> bytes(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(fd.get(), bytes.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(errno, fmt::format("read {}", path));
    DL_CHECK(got > 0, kIo, "{} became shorter while it was read: {} of {} bytes", path, done, size);
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

bool is_gzip(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

struct GzipReader::Stream {
  z_stream z{};
  std::span<const std::byte> rest;
  bool ended = false;
};

GzipReader::GzipReader(std::span<const std::byte> compressed, std::string_view name)
    : stream_(std::make_unique<Stream>()), name_(name) {
  stream_->rest = compressed;
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  DL_CHECK(inflateInit2(&stream_->z, kGzipOnly) == Z_OK, kInternal,
           "{}: zlib could not start inflating", name_);
}

GzipReader::~GzipReader() {
  inflateEnd(&stream_->z);
}

std::size_t GzipReader::read(std::span<std::byte> out) {
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  z_stream& z = stream_->z;
  std::size_t done = 0;
  while (done < out.size() && !stream_->ended) {
    const std::size_t in = std::min(stream_->rest.size(), kMost);
    const std::size_t room = std::min(out.size() - done, kMost);
    // zlib's interface takes its input without const; it does not write to it.
    z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(stream_->rest.data()));
    z.avail_in = static_cast<uInt>(in);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    z.avail_out = static_cast<uInt>(room);
    const int status = inflate(&z, Z_NO_FLUSH);
    stream_->rest = stream_->rest.subspan(in - z.avail_in);
    done += room - z.avail_out;
    if (status == Z_STREAM_END) {
      stream_->ended = stream_->rest.empty();
      if (!stream_->ended) inflateReset(&z);
      continue;
    }
    DL_CHECK(status != Z_BUF_ERROR && !(status == Z_OK && stream_->rest.empty() && z.avail_out > 0),
             kParse, "{} is a truncated gzip file: the stream ends after {} bytes of data", name_,
             z.total_out);
    DL_CHECK(status == Z_OK, kParse, "{} is a damaged gzip file: {}", name_,
             z.msg != nullptr ? z.msg : "zlib cannot inflate it");
  }
  return done;
}

}  // namespace dl::data
