#include "nn/serialize/zip/zip_writer.h"

#include "nn/serialize/zip/zip_reader.h"

namespace dl::nn {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kFull = 0xffffffff;  // the value is in the zip64 field
constexpr std::uint16_t kVersion = 45;       // the first with zip64
constexpr std::uint16_t kDate = 0x21;        // 1 January 1980, the earliest date
constexpr std::uint16_t kPadding = 0x4246;   // the extra field with which PyTorch aligns entries

void append(std::string& out, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i));
}

// The fields that a local header and the directory share, beginning with the version.
std::string common_fields(std::uint32_t crc, std::uint64_t size, std::size_t name_bytes,
                          std::size_t extra_bytes) {
  std::string fields;
  append(fields, kVersion, 2);
  append(fields, 0, 2);  // flags
  append(fields, 0, 2);  // stored
  append(fields, 0, 2);  // midnight
  append(fields, kDate, 2);
  append(fields, crc, 4);
  append(fields, size, 4);
  append(fields, size, 4);
  append(fields, name_bytes, 2);
  append(fields, extra_bytes, 2);
  return fields;
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  file_.write(std::as_bytes(std::span(bytes)));
  position_ += bytes.size();
}

void ZipWriter::add(std::string_view name, std::span<const std::byte> bytes) {
  constexpr std::size_t kLocalBytes = 30;
  const std::uint64_t begin = position_;
  const std::uint64_t size = bytes.size();
  const std::uint32_t crc = crc32_of(bytes);
  const bool is_large = size >= zip64_from_;

  std::string extra;
  if (is_large) {
    append(extra, 1, 2);
    append(extra, 16, 2);
    append(extra, size, 8);
    append(extra, size, 8);
  }
  const std::uint64_t unaligned = begin + kLocalBytes + name.size() + extra.size() + 4;
  const std::uint64_t padding = (kAlignment - unaligned % kAlignment) % kAlignment;
  append(extra, kPadding, 2);
  append(extra, padding, 2);
  extra.append(padding, 'Z');
  write("PK\3\4" + common_fields(crc, is_large ? kFull : size, name.size(), extra.size()));
  write(name);
  write(extra);
  file_.write(bytes);
  position_ += size;

  std::string far;
  const bool is_far = begin >= zip64_from_;
  if (is_large || is_far) {
    append(far, 1, 2);
    append(far, (is_large ? 16U : 0U) + (is_far ? 8U : 0U), 2);
    if (is_large) {
      append(far, size, 8);
      append(far, size, 8);
    }
    if (is_far) append(far, begin, 8);
  }
  directory_ += "PK\1\2";
  append(directory_, kVersion, 2);
  directory_ += common_fields(crc, is_large ? kFull : size, name.size(), far.size());
  directory_.append(2 + 2 + 2 + 4, 0);  // comment, disk, attributes
  append(directory_, is_far ? kFull : begin, 4);
  directory_ += name;
  directory_ += far;
  ++count_;
}

void ZipWriter::finish() {
  const std::uint64_t begin = position_;
  const std::uint64_t size = directory_.size();
  const bool is_64 = count_ >= 0xffff || begin >= zip64_from_ || size >= zip64_from_;
  std::string end;
  if (is_64) {
    end += "PK\6\6";
    append(end, 44, 8);  // remaining bytes of this record
    append(end, kVersion, 2);
    append(end, kVersion, 2);
    append(end, 0, 4 + 4);  // disks
    append(end, count_, 8);
    append(end, count_, 8);
    append(end, size, 8);
    append(end, begin, 8);
    end += "PK\6\7";
    append(end, 0, 4);
    append(end, begin + size, 8);
    append(end, 1, 4);
  }
  end += "PK\5\6";
  append(end, 0, 2 + 2);
  append(end, is_64 ? 0xffff : count_, 2);
  append(end, is_64 ? 0xffff : count_, 2);
  append(end, is_64 ? kFull : size, 4);
  append(end, is_64 ? kFull : begin, 4);
  append(end, 0, 2);
  write(directory_);
  write(end);
}

}  // namespace dl::nn
