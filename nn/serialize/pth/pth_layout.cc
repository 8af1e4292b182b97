#include "nn/serialize/pth/pth_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::nn {
namespace {

constexpr std::string_view kPickleName = "data.pkl";

void check_zip(const ByteSource& source) {
  std::array<char, 262> head{};
  const auto there = std::min<std::uint64_t>(head.size(), source.size);
  source.read_at(0, std::as_writable_bytes(std::span(head).first(there)));
  const std::string_view text(head.data(), there);
  if (text.starts_with("PK\3\4")) return;
  const bool is_tar = text.size() == head.size() && text.substr(257) == "ustar";
  DL_CHECK(!is_tar, kParse,
           "{} is of the tar format before PyTorch 0.1.10, which is not read; write it anew in "
           "Python: torch.save(torch.load(path, weights_only=False), path)",
           source.name);
  throw_error(ErrorKind::kParse,
              "{} is no PyTorch file: it begins neither as a zip archive nor with torch.save's "
              "number",
              source.name);
}

std::string text_of(const ZipReader& zip, const ZipEntry& entry) {
  std::string text(entry.size, '\0');
  zip.read(entry, std::as_writable_bytes(std::span(text)));
  return text;
}

// The archive's root folder with its slash: the one that contains data.pkl.
std::string root_of(const ZipReader& zip) {
  const std::string& file = zip.source().name;
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : zip.entries()) {
    const std::string_view name = entry.name;
    if (!name.ends_with(kPickleName)) continue;
    const std::string_view folder = name.substr(0, name.size() - kPickleName.size());
    if (!folder.empty() && !folder.ends_with('/')) continue;
    DL_CHECK(found == nullptr, kParse, "{} holds two values, {} and {}", file,
             shown_name(found->name), shown_name(name));
    found = &entry;
  }
  DL_CHECK(found != nullptr, kParse, "{} is no PyTorch file: it is a zip archive without {}", file,
           kPickleName);
  std::string root = found->name.substr(0, found->name.size() - kPickleName.size());
  DL_CHECK(zip.find(root + "constants.pkl") == nullptr, kParse,
           "{} is a program of TorchScript (torch.jit.save), which is not read; in Python save "
           "model.state_dict() with torch.save",
           file);
  return root;
}

bool is_big_endian(const ZipReader& zip, const std::string& root) {
  const ZipEntry* const entry = zip.find(root + "byteorder");
  if (entry == nullptr) return false;  // before PyTorch 2.1
  const std::string order = entry->size > 16 ? "" : text_of(zip, *entry);
  DL_CHECK(order == "little" || order == "big", kParse,
           "{}: its byteorder is {}, wanted little or big", zip.source().name, shown_name(order));
  return order == "big";
}

}  // namespace

void PthLayout::read_storage(std::size_t number, std::span<std::byte> out) const {
  const Place& place = storages[number];
  if (place.entry != nullptr) return zip->read(*place.entry, out);
  source.read_at(place.begin, out);
}

PthLayout read_pth_layout(ByteSource source, ZipLimits limits) {
  if (is_legacy_pth(source)) return read_legacy_layout(std::move(source));
  check_zip(source);
  PthLayout layout{.source = source, .zip = ZipReader(std::move(source), limits)};
  const ZipReader& zip = *layout.zip;
  const std::string& file = zip.source().name;
  const std::string root = root_of(zip);
  layout.big_endian = is_big_endian(zip, root);

  const ZipEntry& pickle = *zip.find(root + std::string(kPickleName));
  // Values need more memory than their bytes in the pickle, so a deflated pickle must not multiply
  // that.
  const std::uint64_t most =
      pickle.deflated ? std::min(kMaxPickleBytes, (std::uint64_t{1} << 20) + 100 * pickle.packed)
                      : kMaxPickleBytes;
  DL_CHECK(pickle.size <= most, kParse, "{}: {} announces {} bytes, wanted at most {}", file,
           kPickleName, pickle.size, most);
  layout.pickled.resize(pickle.size);
  zip.read(pickle, std::as_writable_bytes(std::span(layout.pickled)));
  layout.pickle = read_pickle({layout.pickled.data(), layout.pickled.size()}, file);

  for (const PickleStorage& storage : layout.pickle.storages) {
    const std::string name = fmt::format("{}data/{}", root, storage.key);
    const ZipEntry* const entry = zip.find(name);
    DL_CHECK(entry != nullptr, kParse, "{}: it has no entry {}, in which tensors lie", file,
             shown_name(name));
    DL_CHECK(entry->size == storage.bytes, kParse,
             "{}: entry {} has {} bytes, but its tensors' storage takes {}", file, shown_name(name),
             entry->size, storage.bytes);
    layout.storages.push_back({.entry = entry});
  }
  return layout;
}

}  // namespace dl::nn
