#include "nn/serialize/zip/zip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/base/text/inflation.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::nn {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocatorSignature = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kCentralBytes = 46;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kLocatorBytes = 20;
constexpr std::uint64_t kMaxComment = 0xffff;
constexpr std::uint16_t kZip64Field = 1;
constexpr std::uint32_t kIn64 = 0xffffffff;  // the value is in the zip64 field

// Little-endian numbers in a record whose length the caller has checked.
class Record {
 public:
  explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint16_t u16(std::size_t at) const { return static_cast<std::uint16_t>(number(at, 2)); }
  std::uint32_t u32(std::size_t at) const { return static_cast<std::uint32_t>(number(at, 4)); }
  std::uint64_t u64(std::size_t at) const { return number(at, 8); }

 private:
  std::uint64_t number(std::size_t at, std::size_t width) const {
    std::uint64_t value = 0;
    for (std::size_t i = width; i-- > 0;) {
      value = value << 8 | std::to_integer<std::uint64_t>(bytes_[at + i]);
    }
    return value;
  }
  std::span<const std::byte> bytes_;
};

// Replaces values by those in the zip64 field of `extra`: first the sizes, then the offset, each
// only if its 32 bits are all set.
void read_zip64_field(std::span<const std::byte> extra, std::array<std::uint64_t*, 3> values,
                      const ZipEntry& entry, std::string_view file) {
  if (std::ranges::none_of(values, [](const auto* value) { return *value == kIn64; })) return;
  while (extra.size() >= 4) {
    const Record head(extra);
    const std::size_t length = head.u16(2);
    if (length > extra.size() - 4) break;
    if (head.u16(0) == kZip64Field) {
      std::size_t at = 0;
      bool complete = true;
      for (std::uint64_t* value : values) {
        if (*value != kIn64) continue;
        complete = complete && at + 8 <= length;
        if (!complete) break;
        *value = Record(extra.subspan(4)).u64(at);
        at += 8;
      }
      if (complete) return;
      break;
    }
    extra = extra.subspan(4 + length);
  }
  throw_error(ErrorKind::kParse, "{}: entry {} announces zip64 sizes and does not have them", file,
              shown_name(entry.name));
}

}  // namespace

std::uint32_t crc32_of(std::span<const std::byte> bytes) {
  uLong crc = ::crc32(0, nullptr, 0);
  while (!bytes.empty()) {
    const std::size_t some = std::min<std::size_t>(bytes.size(), std::size_t{1} << 30);
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(some));
    bytes = bytes.subspan(some);
  }
  return static_cast<std::uint32_t>(crc);
}

ZipReader::ZipReader(ByteSource source, ZipLimits limits)
    : source_(std::move(source)), limits_(limits) {
  read_directory(find_directory());
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

ZipReader::Directory ZipReader::find_directory() const {
  const std::uint64_t tail_bytes = std::min(source_.size, kEndBytes + kMaxComment);
  std::vector<std::byte> tail(tail_bytes);
  const std::uint64_t tail_begin = source_.size - tail_bytes;
  source_.read_at(tail_begin, tail);
  for (std::uint64_t at = tail_bytes; at-- > 0;) {
    if (tail_bytes - at < kEndBytes) continue;
    const Record end{std::span(tail).subspan(at)};
    if (end.u32(0) != kEndSignature || end.u16(20) != tail_bytes - at - kEndBytes) continue;
    const std::uint64_t position = tail_begin + at;
    if (at >= kLocatorBytes) {
      const Record locator{std::span(tail).subspan(at - kLocatorBytes)};
      if (locator.u32(0) == kLocatorSignature) {
        return directory_of_zip64(position - kLocatorBytes);
      }
    }
    DL_CHECK(end.u16(4) == 0 && end.u16(6) == 0 && end.u16(8) == end.u16(10), kParse,
             "{} is one part of a zip archive of several", source_.name);
    const Directory directory{.begin = end.u32(16), .size = end.u32(12), .count = end.u16(10)};
    DL_CHECK(directory.begin + directory.size == position, kParse,
             "{}: its directory takes {} bytes from byte {} on, wanted an end at byte {}",
             source_.name, directory.size, directory.begin, position);
    return directory;
  }
  throw_error(ErrorKind::kParse, "{} is truncated: it has no end of a zip archive's directory",
              source_.name);
}

ZipReader::Directory ZipReader::directory_of_zip64(std::uint64_t locator) const {
  std::array<std::byte, kEnd64Bytes> bytes{};
  source_.read_at(locator, std::span(bytes).first(kLocatorBytes));
  const std::uint64_t position = Record(bytes).u64(8);
  DL_CHECK(locator >= kEnd64Bytes && position <= locator - kEnd64Bytes, kParse,
           "{}: its zip64 directory's end is announced at byte {}, wanted at most {}", source_.name,
           position, locator < kEnd64Bytes ? 0 : locator - kEnd64Bytes);
  source_.read_at(position, bytes);
  const Record end(bytes);
  DL_CHECK(end.u32(0) == kEnd64Signature, kParse,
           "{}: no end of a zip64 directory stands at byte {}", source_.name, position);
  const Directory directory{.begin = end.u64(48), .size = end.u64(40), .count = end.u64(32)};
  DL_CHECK(end.u32(16) == 0 && end.u32(20) == 0 && end.u64(24) == directory.count, kParse,
           "{} is one part of a zip archive of several", source_.name);
  DL_CHECK(directory.size <= position && directory.begin == position - directory.size, kParse,
           "{}: its directory takes {} bytes from byte {} on, wanted an end at byte {}",
           source_.name, directory.size, directory.begin, position);
  return directory;
}

void ZipReader::read_directory(const Directory& directory) {
  DL_CHECK(directory.count <= directory.size / kCentralBytes, kParse,
           "{}: its directory has {} bytes, too few for {} entries", source_.name, directory.size,
           directory.count);
  std::vector<std::byte> bytes(directory.size);
  source_.read_at(directory.begin, bytes);
  std::span<const std::byte> rest(bytes);
  std::uint64_t inflated = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;  // header to end
  entries_.reserve(directory.count);
  for (std::uint64_t number = 0; number < directory.count; ++number) {
    DL_CHECK(rest.size() >= kCentralBytes && Record(rest).u32(0) == kCentralSignature, kParse,
             "{}: entry {} of {} is not in its directory", source_.name, number, directory.count);
    const Record central(rest);
    const std::size_t name_bytes = central.u16(28);
    const std::size_t extra_bytes = central.u16(30);
    const std::size_t comment_bytes = central.u16(32);
    DL_CHECK(rest.size() - kCentralBytes >= name_bytes + extra_bytes + comment_bytes, kParse,
             "{}: entry {} of {} is not in its directory", source_.name, number, directory.count);
    ZipEntry entry{.name = {reinterpret_cast<const char*>(rest.data()) + kCentralBytes, name_bytes},
                   .packed = central.u32(20),
                   .size = central.u32(24),
                   .crc32 = central.u32(16)};
    std::uint64_t header = central.u32(42);
    read_zip64_field(rest.subspan(kCentralBytes + name_bytes, extra_bytes),
                     {&entry.size, &entry.packed, &header}, entry, source_.name);
    rest = rest.subspan(kCentralBytes + name_bytes + extra_bytes + comment_bytes);

    const std::string shown = shown_name(entry.name);
    constexpr std::uint16_t kEncrypted = 1 << 0 | 1 << 6 | 1 << 13;
    DL_CHECK((central.u16(8) & kEncrypted) == 0, kParse, "{}: entry {} is encrypted", source_.name,
             shown);
    const std::uint16_t method = central.u16(10);
    DL_CHECK(method == 0 || method == Z_DEFLATED, kParse,
             "{}: entry {} is packed by method {}, wanted 0 (stored) or 8 (deflated)", source_.name,
             shown, method);
    entry.deflated = method != 0;
    if (entry.deflated) {
      DL_CHECK(can_inflate_to(entry.packed, entry.size), kParse,
               "{}: entry {} announces {} bytes, more than its {} deflated bytes can hold",
               source_.name, shown, entry.size, entry.packed);
      DL_CHECK(entry.size <= limits_.max_inflated - inflated, kParse,
               "{}: its deflated entries hold more than {} bytes; raise max_inflated if the file "
               "is your own",
               source_.name, limits_.max_inflated);
      inflated += entry.size;
    } else {
      DL_CHECK(entry.size == entry.packed, kParse,
               "{}: entry {} is stored and has two sizes, {} and {}", source_.name, shown,
               entry.packed, entry.size);
    }
    spans.emplace_back(header, locate(entry, header, directory.begin));
    entries_.push_back(std::move(entry));
  }
  DL_CHECK(rest.empty(), kParse, "{}: its directory goes on for {} bytes behind its {} entries",
           source_.name, rest.size(), directory.count);
  std::ranges::sort(spans);
  for (std::size_t i = 1; i < spans.size(); ++i) {
    DL_CHECK(spans[i - 1].second <= spans[i].first, kParse,
             "{}: two of its entries share the bytes from {} on", source_.name, spans[i].first);
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    DL_CHECK(by_name_.emplace(entries_[i].name, i).second, kParse, "{}: two entries are called {}",
             source_.name, shown_name(entries_[i].name));
  }
}

std::uint64_t ZipReader::locate(ZipEntry& entry, std::uint64_t header, std::uint64_t limit) const {
  const auto require = [&](bool inside) {
    DL_CHECK(inside, kParse, "{}: entry {} lies outside the file or in its directory", source_.name,
             shown_name(entry.name));
  };
  require(header <= limit && limit - header >= kLocalBytes);
  std::array<std::byte, kLocalBytes> bytes{};
  source_.read_at(header, bytes);
  const Record local(bytes);
  DL_CHECK(local.u32(0) == kLocalSignature, kParse, "{}: no entry stands at byte {}, wanted {}",
           source_.name, header, shown_name(entry.name));
  const std::uint64_t name_begin = header + kLocalBytes;
  require(limit - name_begin >= std::uint64_t{local.u16(26)} + local.u16(28));
  std::string name(local.u16(26), '\0');
  source_.read_at(name_begin, std::as_writable_bytes(std::span(name)));
  DL_CHECK(name == entry.name, kParse, "{}: the entry {} is called {} in the directory",
           source_.name, shown_name(name), shown_name(entry.name));
  entry.begin = name_begin + name.size() + local.u16(28);
  require(limit - entry.begin >= entry.packed);
  return entry.begin + entry.packed;
}

void ZipReader::read(const ZipEntry& entry, std::span<std::byte> out) const {
  DL_CHECK(out.size() == entry.size, kInternal, "{}: {} bytes for entry {} of {}", source_.name,
           out.size(), shown_name(entry.name), entry.size);
  if (entry.deflated) {
    inflate_to(entry, out);
  } else {
    source_.read_at(entry.begin, out);
  }
  DL_CHECK(!limits_.check_crc32 || crc32_of(out) == entry.crc32, kParse,
           "{}: entry {} is damaged: its CRC-32 is {:08x}, wanted {:08x}", source_.name,
           shown_name(entry.name), crc32_of(out), entry.crc32);
}

void ZipReader::inflate_to(const ZipEntry& entry, std::span<std::byte> out) const {
  z_stream z{};
  constexpr int kRaw = -MAX_WBITS;
  DL_CHECK(inflateInit2(&z, kRaw) == Z_OK, kInternal, "{}: zlib could not start inflating",
           source_.name);
  const std::unique_ptr<z_stream, int (*)(z_streamp)> end(&z, inflateEnd);
  std::array<std::byte, std::size_t{1} << 14> packed{};
  std::byte none{};
  std::uint64_t taken = 0;
  std::size_t done = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    if (z.avail_in == 0) {
      const std::size_t some = std::min<std::uint64_t>(packed.size(), entry.packed - taken);
      source_.read_at(entry.begin + taken, std::span(packed).first(some));
      taken += some;
      z.next_in = reinterpret_cast<Bytef*>(packed.data());
      z.avail_in = static_cast<uInt>(some);
    }
    const auto room = static_cast<uInt>(
        std::min<std::size_t>(out.size() - done, std::numeric_limits<uInt>::max()));
    // zlib requires an address even for 0 bytes.
    z.next_out = reinterpret_cast<Bytef*>(room > 0 ? out.data() + done : &none);
    z.avail_out = room;
    status = inflate(&z, Z_NO_FLUSH);
    done += room - z.avail_out;
  }
  DL_CHECK(status == Z_STREAM_END && done == out.size() && z.avail_in == 0 && taken == entry.packed,
           kParse, "{}: entry {} is damaged: it does not inflate to the {} bytes it announces",
           source_.name, shown_name(entry.name), entry.size);
}

}  // namespace dl::nn
