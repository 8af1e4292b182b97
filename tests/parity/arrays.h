// Reads the arrays that tests/parity/make_arrays.py wrote, for tests that compare with PyTorch.
//
// A reader of its own, so that a test of ours does not stand on the code it tests.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dl::parity {

class Arrays {
 public:
  // Reads tests/parity/arrays/<topic>.safetensors below DLRUN_TEST_SOURCE, which ctest sets;
  // without it, below the source tree that the test was built from.
  explicit Arrays(std::string_view topic);

  bool has(const std::string& name) const { return entries_.contains(name); }
  std::vector<std::string> names() const;
  // safetensors' spelling: "F32", "I64", "U8".
  const std::string& dtype(const std::string& name) const { return entry(name).dtype; }
  const std::vector<std::size_t>& shape(const std::string& name) const { return entry(name).shape; }

  const std::string& raw(const std::string& name) const { return entry(name).bytes; }

  // The values, row by row. Throws if T is not as wide as the file's dtype.
  template <typename T>
  std::vector<T> get(const std::string& name) const {
    const Entry& found = entry(name);
    if (found.bytes.size() != count(found) * sizeof(T)) {
      throw std::runtime_error(name + " holds " + found.dtype + ", not what the test asked for");
    }
    std::vector<T> values(count(found));
    if (!values.empty()) std::memcpy(values.data(), found.bytes.data(), found.bytes.size());
    return values;
  }

 private:
  struct Entry {
    std::string dtype;
    std::vector<std::size_t> shape;
    std::string bytes;
  };
  static std::size_t count(const Entry& entry);
  const Entry& entry(const std::string& name) const;

  std::string path_;
  std::map<std::string, Entry> entries_;
};

}  // namespace dl::parity
