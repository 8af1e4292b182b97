#include "tests/parity/arrays.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace dl::parity {

Arrays::Arrays(std::string_view topic) {
  const char* source = std::getenv("DLRUN_TEST_SOURCE");
  path_ = std::string(source != nullptr ? source : DLRUN_SOURCE_DIR) + "/tests/parity/arrays/" +
          std::string(topic) + ".safetensors";
  std::ifstream file(path_, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::uint64_t header = 0;
  if (bytes.size() < sizeof(header)) throw std::runtime_error("cannot read " + path_);
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::string data = bytes.substr(sizeof(header) + header);
  const auto index = nlohmann::json::parse(bytes.substr(sizeof(header), header));
  for (const auto& [name, value] : index.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = value["data_offsets"][0];
    const std::size_t end = value["data_offsets"][1];
    entries_[name] = {value["dtype"], value["shape"], data.substr(begin, end - begin)};
  }
}

std::vector<std::string> Arrays::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

std::size_t Arrays::count(const Entry& entry) {
  std::size_t product = 1;
  for (const std::size_t size : entry.shape) product *= size;
  return product;
}

const Arrays::Entry& Arrays::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw std::runtime_error(path_ + " has no array " + name);
  return found->second;
}

}  // namespace dl::parity
