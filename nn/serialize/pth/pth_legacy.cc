// Files of torch.save before PyTorch 1.6, or with _use_new_zipfile_serialization=False:
//
//   five pickles: a number, 1001, facts of the machine, the value, the keys of its storages
//   for each key, in that order: uint64 elements, little-endian | their bytes, little-endian
//
// (torch/serialization.py, _legacy_save.)
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "nn/serialize/pth/pth_layout.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::nn {
namespace {

// 0x1950a86a20f9469cfc6c as bytes of an integer.
constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr std::int64_t kLegacyVersion = 1001;
// Before the magic number there are its opcode and length, and the protocol's opcodes.
constexpr std::size_t kMostBeforeMagic = 16;
// Pickles are short compared to storages: read this much of the file first, then double it.
constexpr std::uint64_t kFirstBytes = 1 << 20;

struct Pickles {
  Pickle value;
  Pickle keys;
  std::size_t end = 0;
};

// Nullopt if they continue after `bytes`.
std::optional<Pickles> read_pickles(std::string_view bytes, std::string_view file) {
  Pickles all;
  const auto next = [&] { return read_next_pickle(bytes, file, all.end); };
  const auto magic = next();
  if (!magic) return std::nullopt;
  DL_CHECK(magic->root.kind == PickleKind::kBigInt && magic->texts[magic->root.index()] == kMagic,
           kParse, "{} is no PyTorch file: another number than torch.save's stands first", file);
  const auto version = next();
  if (!version) return std::nullopt;
  DL_CHECK(version->root.kind == PickleKind::kInt && version->root.number == kLegacyVersion, kParse,
           "{}: its format has another version than {}", file, kLegacyVersion);
  if (!next()) return std::nullopt;  // sizes of the machine's integers
  auto value = next();
  if (!value) return std::nullopt;
  auto keys = next();
  if (!keys) return std::nullopt;
  all.value = std::move(*value);
  all.keys = std::move(*keys);
  return all;
}

std::uint64_t count_at(const ByteSource& source, std::uint64_t at) {
  std::array<std::byte, 8> bytes{};
  source.read_at(at, bytes);
  std::uint64_t count = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    count = count << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return count;
}

// Sets the positions of all storages, whose bytes begin at offset `at`.
void place_storages(const Pickle& keys, std::uint64_t at, PthLayout& layout) {
  const ByteSource& source = layout.source;
  const std::vector<PickleStorage>& storages = layout.pickle.storages;
  DL_CHECK(keys.root.kind == PickleKind::kList, kParse, "{}: the keys of its storages are no list",
           source.name);
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (std::size_t i = 0; i < storages.size(); ++i) numbers.emplace(storages[i].key, i);
  layout.storages.resize(storages.size());
  for (const PickleItem& item : keys.lists[keys.root.index()]) {
    const std::string_view key =
        item.kind == PickleKind::kText ? keys.texts[item.index()] : std::string_view();
    const auto found = numbers.find(key);
    DL_CHECK(item.kind == PickleKind::kText && found != numbers.end(), kParse,
             "{}: it has bytes of storage {}, which no tensor has or which comes twice",
             source.name, shown_name(key));
    const PickleStorage& storage = storages[found->second];
    DL_CHECK(source.size - at >= 8, kParse, "{} is truncated before storage {}", source.name,
             shown_name(key));
    const std::uint64_t count = count_at(source, at);
    at += 8;
    DL_CHECK(count == storage.count, kParse,
             "{}: storage {} has {} elements, but its tensors' storage has {}", source.name,
             shown_name(key), count, storage.count);
    DL_CHECK(storage.bytes <= source.size - at, kParse,
             "{} is truncated: storage {} takes {} bytes, and {} are left", source.name,
             shown_name(key), storage.bytes, source.size - at);
    layout.storages[found->second].begin = at;
    at += storage.bytes;
    numbers.erase(found);
  }
  DL_CHECK(numbers.empty(), kParse, "{}: it has no bytes of storage {}, in which tensors lie",
           source.name, shown_name(numbers.begin()->first));
}

}  // namespace

bool is_legacy_pth(const ByteSource& source) {
  std::array<char, kMostBeforeMagic + kMagic.size()> head{};
  const auto there = std::min<std::uint64_t>(head.size(), source.size);
  source.read_at(0, std::as_writable_bytes(std::span(head).first(there)));
  return std::string_view(head.data(), there).find(kMagic) != std::string_view::npos;
}

PthLayout read_legacy_layout(ByteSource source) {
  PthLayout layout{.source = std::move(source)};
  const std::uint64_t most = std::min(layout.source.size, kMaxPickleBytes);
  for (std::uint64_t bytes = std::min(most, kFirstBytes);; bytes = std::min(most, 2 * bytes)) {
    layout.pickled.resize(bytes);
    layout.source.read_at(0, std::as_writable_bytes(std::span(layout.pickled)));
    auto pickles = read_pickles({layout.pickled.data(), bytes}, layout.source.name);
    if (pickles) {
      layout.pickle = std::move(pickles->value);
      place_storages(pickles->keys, pickles->end, layout);
      return layout;
    }
    DL_CHECK(bytes < most || most < layout.source.size, kParse,
             "{} is truncated: it ends inside its pickles", layout.source.name);
    DL_CHECK(bytes < most, kParse, "{}: its pickles have more than {} bytes", layout.source.name,
             kMaxPickleBytes);
  }
}

}  // namespace dl::nn
