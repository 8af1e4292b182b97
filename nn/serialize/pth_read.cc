#include <algorithm>
#include <cstddef>
#include <span>
#include <unordered_set>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/factories.h"
#include "nn/serialize/input_file.h"
#include "nn/serialize/pth.h"
#include "nn/serialize/pth_layout.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::nn {
namespace {

// Turns the numbers of `width` bytes around.
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
      case PickleKind::kDict:
        return dict_of(pickle.lists[item.index()]);
      case PickleKind::kNone:
      case PickleKind::kStorage:  // the layout has none as values
      case PickleKind::kGlobal:
        break;
    }
    return {};
  }

 private:
  const std::string& file() const { return layout_.zip.source().name; }

  Value::List list_of(const std::vector<PickleItem>& items) const {
    Value::List list;
    list.reserve(items.size());
    for (const PickleItem& item : items) list.push_back(value_of(item));
    return list;
  }

  Value::Dict dict_of(const std::vector<PickleItem>& items) const {
    Value::Dict dict;
    dict.reserve(items.size() / 2);
    std::unordered_set<std::string_view> texts;
    std::unordered_set<std::int64_t> numbers;
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const bool is_text = items[i].kind == PickleKind::kText;
      const bool is_new = is_text ? texts.insert(layout_.pickle.texts[items[i].index()]).second
                                  : numbers.insert(items[i].number).second;
      DL_CHECK(is_new, kParse, "{}: a dict has the key {} twice", file(),
               is_text ? shown_name(layout_.pickle.texts[items[i].index()])
                       : std::to_string(items[i].number));
      dict.push_back({value_of(items[i]), value_of(items[i + 1])});
    }
    return dict;
  }

  // All of a storage as a vector; undefined if no tensor shows it.
  Tensor read_storage(std::size_t number) const {
    const PickleStorage& about = layout_.pickle.storages[number];
    if (!about.dtype) return {};
    const std::size_t width = size_of(*about.dtype);
    Tensor all = memory_for(about, static_cast<std::int64_t>(about.bytes / width));
    const std::span<std::byte> bytes(static_cast<std::byte*>(all.data_ptr()), about.bytes);
    layout_.zip.read(*layout_.storages[number], bytes);
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
