#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/text/printable.h"
#include "nn/serialize/input_file.h"
#include "nn/serialize/safetensors.h"

namespace dl::nn {
namespace {

// An index of 1,000,000 tensors has about 100 MB.
constexpr std::uint64_t kMostIndexBytes = std::uint64_t{256} << 20U;

// The tensors that each file has to hold, by the name of the file.
using WeightMap = std::map<std::string, std::set<std::string>>;

// A name of a file in the index's own folder: an index from elsewhere reads no other file.
bool is_plain_file_name(std::string_view name) noexcept {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

WeightMap read_weight_map(const std::string& path) {
  const InputFile file(path);
  DL_CHECK(file.size() <= kMostIndexBytes, kParse, "{} has {} bytes, wanted at most {}", path,
           file.size(), kMostIndexBytes);
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  DL_CHECK(!json.is_discarded(), kParse, "{}: not JSON; is the file whole?", path);
  const auto list = json.is_object() ? json.find("weight_map") : json.end();
  DL_CHECK(list != json.end() && list->is_object(), kParse,
           "{}: no object \"weight_map\" of tensors and files; is this an index of safetensors?",
           path);
  WeightMap map;
  for (const auto& [tensor, where] : list->items()) {
    DL_CHECK(where.is_string() && is_plain_file_name(where.get_ref<const std::string&>()), kParse,
             "{}: tensor {} has {}, wanted the name of a file beside the index", path,
             quoted_name(tensor),
             where.is_string() ? quoted_name(where.get_ref<const std::string&>())
                               : std::string(where.type_name()));
    map[where.get<std::string>()].insert(tensor);
  }
  return map;
}

}  // namespace

Safetensors load_sharded_safetensors(const std::string& index) {
  Safetensors whole{.tensors = {}, .metadata = {}, .skipped = {}, .path = index};
  const std::string folder = index.substr(0, index.rfind('/') + 1);
  for (auto& [name, wanted] : read_weight_map(index)) {
    Safetensors shard = load_safetensors(folder + name);
    const auto expect = [&](const std::string& tensor) {
      DL_CHECK(wanted.erase(tensor) == 1, kParse, "{}: tensor {} is in {}, and not in the index",
               index, quoted_name(tensor), name);
    };
    for (NamedTensor& entry : shard.tensors) {
      expect(entry.name);
      whole.tensors.push_back(std::move(entry));
    }
    for (SkippedTensor& entry : shard.skipped) {
      expect(entry.name);
      whole.skipped.push_back(std::move(entry));
    }
    DL_CHECK(wanted.empty(), kParse, "{}: tensor {} is not in {}", index,
             quoted_name(*wanted.begin()), name);
    whole.metadata.merge(std::move(shard.metadata));
  }
  return whole;
}

}  // namespace dl::nn
