// The results of calls to functions and classes that a pickle names.
#include <algorithm>

#include "core/base/text/utf8.h"
#include "nn/serialize/input_file.h"
#include "nn/serialize/pickle/pickle_machine.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::nn {

void PickleMachine::reduce() {
  const PickleItem args = pop();
  const PickleItem callee = pop();
  require(args.kind == Kind::kTuple && callee.kind == Kind::kGlobal, "calls what is no function");
  const std::vector<PickleItem> given = list_of(args);  // the calls below make lists
  steps_ += given.size();
  call(kPickleNames[callee.index()], given);
}

// cls.__new__(cls, *args), which for these classes takes the same arguments as a call.
void PickleMachine::make_object() {
  const PickleItem& callee = stack_.size() < 2 ? top() : stack_[stack_.size() - 2];
  require(is_role(callee, PickleRole::kOrderedDict) ||
              is_role(callee, PickleRole::kRebuildParameterPlain),
          "makes an object of another class than OrderedDict, Counter and Parameter");
  reduce();
}

void PickleMachine::call(const PickleName& function, std::span<const PickleItem> given) {
  switch (function.role) {
    case PickleRole::kOrderedDict:
      return push_dict(given, function.name);
    case PickleRole::kSize:
      require(given.size() == 1 && given[0].kind == Kind::kTuple, "makes a Size of no tuple");
      return stack_.push_back(given[0]);
    case PickleRole::kRebuildTensorPlain:
    case PickleRole::kRebuildTensor:
    case PickleRole::kRebuildTensorTyped:
      return push_tensor(given, function.role);
    case PickleRole::kRebuildParameterPlain:
      return push_parameter(given, 2);
    case PickleRole::kRebuildParameter:
      return push_parameter(given, 3);
    case PickleRole::kRebuildParameterStated:
      return push_parameter(given, 4);
    case PickleRole::kRebuildFromType:
      return push_rebuilt(given);
    case PickleRole::kDevice:
      return push_device(given);
    case PickleRole::kLayout:
      require(given.size() == 1 && given[0].kind == Kind::kText, "makes a layout of no text");
      return stack_.push_back(given[0]);
    case PickleRole::kEncode: {
      constexpr std::string_view kWhat = "encodes other arguments than a text and \"latin1\"";
      require(given.size() == 2 && given[0].kind == Kind::kText && given[1].kind == Kind::kText &&
                  (text_of(given[1]) == "latin1" || text_of(given[1]) == "latin-1"),
              kWhat);
      return push_encoded(given[0]);
    }
    case PickleRole::kBytes:
      return push_byte_array(given);
    case PickleRole::kSet:
      return push_set(given);
    case PickleRole::kComplex:
      return push_complex(given);
    default:
      refuse(fmt::format("calls {}, which is no function", function.name));
  }
}

// Python 2 wrote OrderedDict([[key, value], ...]); Counter({key: count, ...}).
void PickleMachine::push_dict(std::span<const PickleItem> given, std::string_view name) {
  std::vector<PickleItem> items;
  const auto is_list = [](const PickleItem& item) {
    return item.kind == Kind::kList || item.kind == Kind::kTuple;
  };
  bool fits = given.size() <= 1;
  if (given.size() == 1 && given[0].kind == Kind::kDict) {
    items = list_of(given[0]);
  } else if (given.size() == 1 && is_list(given[0])) {
    for (const PickleItem& pair : list_of(given[0])) {
      fits = fits && is_list(pair) && list_of(pair).size() == 2;
      if (!fits) break;
      items.insert(items.end(), list_of(pair).begin(), list_of(pair).end());
    }
  } else {
    fits = given.empty();
  }
  if (!fits) {
    refuse(
        fmt::format("makes {} of other arguments than a dict or pairs of a key and a value", name));
  }
  steps_ += items.size();
  push_new(Kind::kDict, pickle_.lists, std::move(items));
}

void PickleMachine::push_set(std::span<const PickleItem> given) {
  std::vector<PickleItem> items;
  if (!given.empty()) {
    require(given.size() == 1 && (given[0].kind == Kind::kList || given[0].kind == Kind::kTuple ||
                                  given[0].kind == Kind::kSet),
            "makes a set of no list");
    items = list_of(given[0]);
  }
  steps_ += items.size();
  push_new(Kind::kSet, pickle_.lists, std::move(items));
}

// Protocol 2 has no bytes type: each byte is a character up to U+00FF.
void PickleMachine::push_encoded(const PickleItem& item) {
  const std::string_view text = text_of(item);
  std::string bytes;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    const auto first = static_cast<std::uint8_t>(text[i]);
    require(length == 1 || (length == 2 && first <= 0xc3),
            "encodes a character as a byte that is none");
    bytes += length == 1
                 ? text[i]
                 : static_cast<char>(first << 6 | (static_cast<std::uint8_t>(text[i + 1]) & 0x3f));
    i += length;
  }
  push_made(Kind::kBytes, std::move(bytes));
}

void PickleMachine::push_byte_array(std::span<const PickleItem> given) {
  if (given.empty()) return push_made(Kind::kBytes, {});
  if (given.size() == 1 && given[0].kind == Kind::kBytes) return stack_.push_back(given[0]);
  require(given.size() == 2 && given[0].kind == Kind::kText && given[1].kind == Kind::kText &&
              (text_of(given[1]) == "latin1" || text_of(given[1]) == "latin-1"),
          "makes bytes of other arguments than bytes, or a text and \"latin-1\"");
  push_encoded(given[0]);
}

void PickleMachine::push_device(std::span<const PickleItem> given) {
  require((given.size() == 1 || given.size() == 2) && given[0].kind == Kind::kText &&
              (given.size() == 1 || given[1].kind == Kind::kInt),
          "makes a device of other arguments than a type and an index");
  if (given.size() == 1) return stack_.push_back(given[0]);
  push_made(Kind::kText, fmt::format("{}:{}", text_of(given[0]), given[1].number));
}

void PickleMachine::push_complex(std::span<const PickleItem> given) {
  require(given.size() == 2 && given[0].kind == Kind::kFloat && given[1].kind == Kind::kFloat,
          "makes a complex number of other arguments than two floats");
  push_new(Kind::kComplex, pickle_.lists, std::vector<PickleItem>{given[0], given[1]});
}

// Hooks and attributes are ignored.
void PickleMachine::push_parameter(std::span<const PickleItem> given, std::size_t count) {
  // Parameter(data) requires gradients.
  const bool fits = given.size() == count || (count == 2 && given.size() == 1);
  require(
      fits && given[0].kind == Kind::kTensor && (given.size() == 1 || given[1].kind == Kind::kBool),
      "makes a Parameter of other arguments than tensor, bool and hooks");
  PickleTensor tensor = pickle_.tensors[given[0].index()];
  tensor.requires_grad = given.size() == 1 || given[1].number != 0;
  require(!tensor.requires_grad || is_floating(tensor.dtype),
          "has integers that require gradients");
  push_new(Kind::kTensor, pickle_.tensors, std::move(tensor));
}

// A tensor or Parameter to which a program has given attributes.
void PickleMachine::push_rebuilt(std::span<const PickleItem> given) {
  require(given.size() == 4 && given[0].kind == Kind::kGlobal && given[2].kind == Kind::kTuple &&
              (is_role(given[1], PickleRole::kTensorClass) ||
               is_role(given[1], PickleRole::kRebuildParameterPlain)),
          "makes a tensor of other arguments than function, Tensor or Parameter, arguments and "
          "attributes");
  const PickleName& function = kPickleNames[given[0].index()];
  require(function.role >= PickleRole::kRebuildTensorPlain &&
              function.role <= PickleRole::kRebuildParameterStated,
          "makes a tensor by what is no function for it");
  const std::vector<PickleItem> arguments = list_of(given[2]);
  steps_ += arguments.size();
  call(function, arguments);
}

void PickleMachine::push_storage() {
  const PickleItem id = pop();
  constexpr std::string_view kWhat =
      "has a storage that is not (\"storage\", type, key, location, count[, view])";
  require(id.kind == Kind::kTuple, kWhat);
  const std::vector<PickleItem>& parts = list_of(id);
  const bool is_view = parts.size() == 6 && parts[5].kind != Kind::kNone;
  require((parts.size() == 5 || parts.size() == 6) && parts[0].kind == Kind::kText &&
              text_of(parts[0]) == "storage" &&
              (is_role(parts[1], PickleRole::kStorageType) ||
               is_role(parts[1], PickleRole::kUntypedStorage)) &&
              parts[2].kind == Kind::kText && parts[3].kind == Kind::kText &&
              parts[4].kind == Kind::kInt && parts[4].number >= 0,
          kWhat);
  // Sums and products of such counts stay below 2^63.
  require(parts[4].number <= std::int64_t{1} << 59, "has a storage of more than 2^59 elements");
  PickleStorage storage{.key = text_of(parts[2]),
                        .dtype = std::nullopt,
                        .bytes = static_cast<std::uint64_t>(parts[4].number),
                        .count = static_cast<std::uint64_t>(parts[4].number)};
  if (is_role(parts[1], PickleRole::kStorageType)) {
    storage.dtype = kPickleNames[parts[1].index()].dtype;
    storage.bytes *= size_of(*storage.dtype);
  }
  const auto [found, is_new] = storages_.emplace(storage.key, pickle_.storages.size());
  if (is_new) {
    pickle_.storages.push_back(storage);
  } else {
    const PickleStorage& known = pickle_.storages[found->second];
    require((!storage.dtype || known.dtype == storage.dtype) && known.bytes == storage.bytes,
            "has one storage with two types or sizes");
  }
  push_new(Kind::kStorage, parts_, part_of(found->second, is_view ? parts[5] : PickleItem()));
}

// `view`: None, or in files before PyTorch 0.4 (key, first element, elements).
PickleMachine::Part PickleMachine::part_of(std::size_t number, const PickleItem& view) const {
  const PickleStorage& storage = pickle_.storages[number];
  if (view.kind == Kind::kNone) return {.storage = number, .begin = 0, .bytes = storage.bytes};
  constexpr std::string_view kWhat =
      "has a view of a storage that is not (key, first element, elements) inside it";
  require(view.kind == Kind::kTuple, kWhat);
  const std::vector<PickleItem>& parts = pickle_.lists[view.index()];
  require(parts.size() == 3 && parts[0].kind == Kind::kText && parts[1].kind == Kind::kInt &&
              parts[2].kind == Kind::kInt && parts[1].number >= 0 && parts[2].number >= 0,
          kWhat);
  const std::uint64_t width = storage.dtype ? size_of(*storage.dtype) : 1;
  const std::uint64_t held = storage.bytes / width;
  const auto begin = static_cast<std::uint64_t>(parts[1].number);
  const auto count = static_cast<std::uint64_t>(parts[2].number);
  require(begin <= held && count <= held - begin, kWhat);
  return {.storage = number, .begin = begin * width, .bytes = count * width};
}

void PickleMachine::push_tensor(std::span<const PickleItem> args, PickleRole role) {
  const bool plain = role == PickleRole::kRebuildTensorPlain;
  const bool typed = role == PickleRole::kRebuildTensorTyped;
  const std::size_t least = plain ? 4 : typed ? 7 : 6;
  require((args.size() == least || (!plain && args.size() == least + 1)) &&
              args[0].kind == Kind::kStorage && args[1].kind == Kind::kInt &&
              (plain || args[4].kind == Kind::kBool),
          "makes a tensor of other arguments than storage, offset, size, stride, requires_grad and "
          "hooks");
  if (args.size() > least) check_metadata(args[least]);
  const Part& part = parts_[args[0].index()];
  PickleStorage& storage = pickle_.storages[part.storage];
  if (typed) {
    if (is_role(args[6], PickleRole::kForeignDType)) {
      throw_error(ErrorKind::kDType, "{}: {} has tensors of {}, a dtype that dlrun does not have",
                  file_, what_, shown_name(kPickleNames[args[6].index()].name));
    }
    require(is_role(args[6], PickleRole::kDType), "makes a tensor with what is no dtype");
    const DType dtype = kPickleNames[args[6].index()].dtype;
    if (!storage.dtype) {
      storage.dtype = dtype;
      require(storage.bytes % size_of(dtype) == 0, "has a storage of half elements");
    }
    require(storage.dtype == dtype, "has a storage with two dtypes");
  }
  require(storage.dtype.has_value(), "has a tensor without a dtype");
  const std::uint64_t width = size_of(*storage.dtype);
  require(part.begin % width == 0 && part.bytes % width == 0, "has a storage of half elements");
  const auto held = static_cast<std::int64_t>(part.bytes / width);
  PickleTensor tensor{.storage = part.storage,
                      .dtype = *storage.dtype,
                      .offset = args[1].number,
                      .shape = sizes_of(args[2], "sizes"),
                      .strides = sizes_of(args[3], "strides"),
                      .requires_grad = !plain && args[4].number != 0};
  require(tensor.shape.size() == tensor.strides.size(),
          "has a tensor with too few or many strides");
  require(!tensor.requires_grad || is_floating(tensor.dtype),
          "has integers that require gradients");
  check_reach(tensor, held);
  // An empty view may begin anywhere, as x.narrow(0, 3, 0) of a shorter x.
  tensor.offset = std::min(tensor.offset, held) + static_cast<std::int64_t>(part.begin / width);
  push_new(Kind::kTensor, pickle_.tensors, std::move(tensor));
}

// PyTorch writes {"neg": True} for a tensor whose elements are the negated elements of its storage,
// and {"conj": True} for a conjugated one.
void PickleMachine::check_metadata(const PickleItem& metadata) {
  require(metadata.kind == Kind::kNone || metadata.kind == Kind::kDict,
          "has a tensor whose metadata are no dict");
  if (metadata.kind == Kind::kNone) return;
  const std::vector<PickleItem>& items = list_of(metadata);
  steps_ += items.size();
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (items[i + 1].kind == Kind::kBool && items[i + 1].number == 0) continue;
    refuse(fmt::format(
        "has a tensor with the metadata {}, which may change its numbers; in Python save "
        "tensor.resolve_conj().resolve_neg()",
        items[i].kind == Kind::kText ? shown_name(text_of(items[i])) : "of an unknown key"));
  }
}

std::vector<std::int64_t> PickleMachine::sizes_of(const PickleItem& item, std::string_view what) {
  std::vector<std::int64_t> sizes;
  require(item.kind == Kind::kTuple && list_of(item).size() <= kMaxDims,
          "has a tensor whose sizes or strides are no tuple, or more than 64");
  steps_ += list_of(item).size();
  for (const PickleItem& size : list_of(item)) {
    if (size.kind != Kind::kInt || size.number < 0) {
      refuse(fmt::format("has a tensor whose {} are no numbers of at least 0", what));
    }
    sizes.push_back(size.number);
  }
  return sizes;
}

// `held`: the elements of its storage, or of the part that it may view.
void PickleMachine::check_reach(const PickleTensor& tensor, std::int64_t held) const {
  // Checked even for a tensor without elements, because its other sizes are multiplied later.
  std::int64_t count = 1;
  std::int64_t reach = 1;
  bool fits = true;
  bool empty = false;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const std::int64_t size = tensor.shape[d];
    empty = empty || size == 0;
    std::int64_t more = 0;
    fits = fits && !__builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count) &&
           !__builtin_mul_overflow(std::max<std::int64_t>(size - 1, 0), tensor.strides[d], &more) &&
           !__builtin_add_overflow(reach, more, &reach);
  }
  fits = fits && count <= std::int64_t{1} << 59;
  require(fits, "has a tensor with more elements than memory can address");
  require(tensor.offset >= 0 && (empty || (tensor.offset <= held && reach <= held - tensor.offset)),
          "has a tensor that reaches outside its storage");
}

}  // namespace dl::nn
