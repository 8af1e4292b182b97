// Files of PyTorch's format for tests: those that make_files.py wrote, and archives of any pickle.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "core/base/system/atomic_file.h"
#include "nn/serialize/zip/zip_writer.h"

namespace dl::nn {

inline std::string torch_file(const std::string& name) {
  return std::string(std::getenv("DLRUN_TEST_SOURCE")) + "/tests/nn/serialize/files/" + name +
         ".pth";
}

inline std::string file_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct NamedBytes {
  std::string_view name;
  std::string_view bytes;
};

inline void write_zip(const std::string& path, std::initializer_list<NamedBytes> entries,
                      std::uint64_t zip64_from = 0xffffffff) {
  AtomicFile file(path);
  ZipWriter zip(file, zip64_from);
  for (const auto& [name, bytes] : entries) zip.add(name, std::as_bytes(std::span(bytes)));
  zip.finish();
  file.commit();
}

// Parts of a pickle.
inline std::string number_bytes(std::uint64_t value, std::size_t width) {
  std::string bytes;
  for (std::size_t i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}
inline std::string pickled_text(std::string_view text) {
  return "X" + number_bytes(text.size(), 4) + std::string(text);
}
inline std::string pickled_int(std::int64_t value) {
  return "\x8a\x08" + number_bytes(static_cast<std::uint64_t>(value), 8);
}
// The entry data/<key>, as `count` elements of torch.<type>.
inline std::string pickled_storage(std::string_view type = "FloatStorage", std::int64_t count = 4,
                                   std::string_view key = "0") {
  return "(" + pickled_text("storage") + "ctorch\n" + std::string(type) + "\n" + pickled_text(key) +
         pickled_text("cpu") + pickled_int(count) + "tQ";
}
// A tensor on `storage`.
inline std::string pickled_tensor(std::int64_t offset, std::initializer_list<std::int64_t> shape,
                                  std::initializer_list<std::int64_t> strides,
                                  const std::string& storage = pickled_storage()) {
  std::string text = "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + pickled_int(offset);
  for (const auto& sizes : {shape, strides}) {
    text += "(";
    for (const std::int64_t size : sizes) text += pickled_int(size);
    text += "t";
  }
  return text +
         "\x89"
         "ccollections\nOrderedDict\n)RtR";
}

}  // namespace dl::nn
