#include <fmt/core.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <span>
#include <unordered_set>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/factories.h"
#include "nn/serialize/input_file.h"
#include "nn/serialize/pickle/pickle_names.h"
#include "nn/serialize/pth/pth.h"
#include "nn/serialize/pth/pth_layout.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::nn {
namespace {

// Reverses the byte order of numbers of `width` bytes.
void swap_bytes(std::span<std::byte> bytes, std::size_t width) {
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    std::ranges::reverse(bytes.subspan(at, width));
  }
}

// Makes the values of a file. A container's depth is bounded by the layout.
class PthValues {
 public:
  explicit PthValues(const PthLayout& layout) : layout_(layout) {
    for (std::size_t i = 0; i < layout.storages.size(); ++i) storages_.push_back(read_storage(i));
    for (const PickleTensor& tensor : layout.pickle.tensors) tensors_.push_back(tensor_of(tensor));
  }

  Value value_of(const PickleItem& item) const {
    const Pickle& pickle = layout_.pickle;
    switch (item.kind) {
      case PickleKind::kBool:
        return item.number != 0;
      case PickleKind::kInt:
        return item.number;
      case PickleKind::kFloat:
        return item.real();
      case PickleKind::kText:
        return pickle.texts[item.index()];
      case PickleKind::kTensor:
        return tensors_[item.index()];
      case PickleKind::kList:
        return list_of(pickle.lists[item.index()]);
      case PickleKind::kTuple:
        return Value::Tuple{list_of(pickle.lists[item.index()])};
      case PickleKind::kSet:
        return set_of(pickle.lists[item.index()]);
      case PickleKind::kDict:
        return dict_of(pickle.lists[item.index()]);
      case PickleKind::kComplex: {
        const std::vector<PickleItem>& parts = pickle.lists[item.index()];
        return std::complex<double>(parts[0].real(), parts[1].real());
      }
      case PickleKind::kBytes:
        return Value::Bytes{std::string(pickle.texts[item.index()])};
      case PickleKind::kBigInt:
        return Value::BigInt::of_bytes(pickle.texts[item.index()]);
      case PickleKind::kGlobal:  // torch.float32
        return kPickleNames[item.index()].name;
      case PickleKind::kNone:
      case PickleKind::kStorage:  // never a value in a layout
        break;
    }
    return {};
  }

 private:
  const std::string& file() const { return layout_.source.name; }

  Value::List list_of(const std::vector<PickleItem>& items) const {
    Value::List list;
    list.reserve(items.size());
    for (const PickleItem& item : items) list.push_back(value_of(item));
    return list;
  }

  Value::Set set_of(const std::vector<PickleItem>& items) const {
    Value::Set set;
    std::unordered_set<std::string> seen;
    for (const PickleItem& item : items) {
      if (seen.insert(identity_of(item)).second) set.items.push_back(value_of(item));
    }
    return set;
  }

  Value::Dict dict_of(const std::vector<PickleItem>& items) const {
    const Pickle& pickle = layout_.pickle;
    Value::Dict dict;
    dict.reserve(items.size() / 2);
    std::unordered_set<std::string_view> texts;
    std::unordered_set<std::int64_t> numbers;
    std::unordered_set<std::string> others;
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const PickleItem& key = items[i];
      if (key.kind == PickleKind::kText) {
        const std::string_view text = pickle.texts[key.index()];
        check_is_new(texts.insert(text).second, shown_name(text));
      } else if (key.kind == PickleKind::kInt) {
        check_is_new(numbers.insert(key.number).second, std::to_string(key.number));
      } else {
        check_is_new(others.insert(identity_of(key)).second, value_of(key).type_name());
      }
      dict.push_back({value_of(key), value_of(items[i + 1])});
    }
    return dict;
  }

  void check_is_new(bool is_new, std::string_view key) const {
    DL_CHECK(is_new, kParse, "{}: a dict has the key {} twice", file(), key);
  }

  // A byte string that identifies a key or a set's element.
  std::string identity_of(const PickleItem& item) const {
    const Pickle& pickle = layout_.pickle;
    std::string identity = fmt::format("{} ", static_cast<int>(item.kind));
    switch (item.kind) {
      case PickleKind::kText:
      case PickleKind::kBytes:
      case PickleKind::kBigInt: {
        const std::string_view text = pickle.texts[item.index()];
        identity += fmt::format("{} ", text.size());
        return identity.append(text);
      }
      case PickleKind::kTuple:
      case PickleKind::kComplex:
        for (const PickleItem& each : pickle.lists[item.index()]) identity += identity_of(each);
        return identity + ")";
      default:
        return identity + fmt::format("{} ", item.number);
    }
  }

  // The whole storage as a vector; undefined if no tensor uses it.
  Tensor read_storage(std::size_t number) const {
    const PickleStorage& about = layout_.pickle.storages[number];
    if (!about.dtype) return {};
    const std::size_t width = size_of(*about.dtype);
    Tensor all = memory_for(about, static_cast<std::int64_t>(about.bytes / width));
    const std::span<std::byte> bytes(static_cast<std::byte*>(all.data_ptr()), about.bytes);
    layout_.read_storage(number, bytes);
    if (layout_.big_endian) swap_bytes(bytes, width);
    DL_CHECK(about.dtype != DType::kBool ||
                 std::ranges::all_of(bytes, [](std::byte b) { return b <= std::byte{1}; }),
             kParse, "{}: storage {} is of bool and holds other bytes than 0 and 1", file(),
             shown_name(about.key));
    return all;
  }

  Tensor memory_for(const PickleStorage& about, std::int64_t count) const {
    try {
      return empty({count}, {.dtype = about.dtype});
    } catch (const Error& error) {
      throw_error(error.kind(), "{}: storage {}: {}", file(), shown_name(about.key), error.what());
    }
  }

  Tensor tensor_of(const PickleTensor& about) const {
    Tensor tensor =
        as_strided(storages_[about.storage], Shape(std::span<const std::int64_t>(about.shape)),
                   Strides(std::span<const std::int64_t>(about.strides)), about.offset);
    if (about.requires_grad) tensor.requires_grad_();
    return tensor;
  }

  const PthLayout& layout_;
  std::vector<Tensor> storages_{};
  std::vector<Tensor> tensors_{};
};

}  // namespace

Value load_pth(const std::string& path, LoadPthOptions options) {
  const InputFile file(path);
  const PthLayout layout =
      read_pth_layout({.name = path,
                       .size = file.size(),
                       .read_at = [&file](std::uint64_t offset,
                                          std::span<std::byte> out) { file.read_at(offset, out); }},
                      {.max_inflated = options.max_inflated, .check_crc32 = options.check_crc32});
  return PthValues(layout).value_of(layout.pickle.root);
}

}  // namespace dl::nn
