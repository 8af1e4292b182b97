#include "nn/serialize/pickle_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "nn/serialize/max_dims.h"
#include "nn/serialize/pickle_names.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::nn {
namespace {

using Kind = PickleKind;

// A machine with a stack, as Python's pickletools describes the opcodes.
class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  Pickle run() {
    while (!step()) {
      DL_CHECK(++steps_ <= kMaxPickleSteps, kParse, "{}: data.pkl has more than {} operations",
               file_, kMaxPickleSteps);
    }
    pickle_.root = pop();
    require(stack_.empty() && marks_.empty(), "ends with more than one value");
    weights_.resize(pickle_.lists.size());
    weigh(pickle_.root, 0);
    return std::move(pickle_);
  }

 private:
  // What a container's value takes once each reference is a copy of its own.
  struct Weight {
    std::uint64_t values = 0;  // 0: not known yet
    int height = 0;
    bool open = false;  // above the container that is looked at
  };

  [[noreturn]] void refuse(std::string_view what) const {
    throw_error(ErrorKind::kParse, "{}: data.pkl {} (at byte {})", file_, what, at_);
  }
  void require(bool holds, std::string_view what) const {
    if (!holds) refuse(what);
  }

  std::string_view take(std::uint64_t count) {
    require(count <= bytes_.size() - next_, "is truncated");
    const std::string_view taken = bytes_.substr(next_, count);
    next_ += count;
    return taken;
  }
  // Little-endian.
  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    const std::string_view taken = take(width);
    for (std::size_t i = width; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(taken[i]);
    return value;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', next_);
    require(end != std::string_view::npos, "is truncated");
    const std::string_view taken = bytes_.substr(next_, end - next_);
    next_ = end + 1;
    return taken;
  }

  void push(Kind kind, std::int64_t value = 0) { stack_.push_back({kind, value}); }
  template <typename T>
  void push_new(Kind kind, std::vector<T>& table, T value) {
    push(kind, static_cast<std::int64_t>(table.size()));
    table.push_back(std::move(value));
  }
  PickleItem pop() {
    require(stack_.size() > (marks_.empty() ? 0 : marks_.back()),
            "takes a value that is not there");
    const PickleItem item = stack_.back();
    stack_.pop_back();
    return item;
  }
  PickleItem& top() {
    require(stack_.size() > (marks_.empty() ? 0 : marks_.back()),
            "takes a value that is not there");
    return stack_.back();
  }
  std::vector<PickleItem> pop_to_mark() {
    require(!marks_.empty(), "takes values to a mark that is not there");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleItem> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<PickleItem>& list_of(const PickleItem& item) { return pickle_.lists[item.index()]; }
  std::string_view text_of(const PickleItem& item) const { return pickle_.texts[item.index()]; }
  bool is_role(const PickleItem& item, PickleRole role) const {
    return item.kind == Kind::kGlobal && kPickleNames[item.index()].role == role;
  }

  bool step();  // true at the end
  void push_tuple(std::size_t count);
  void push_long(std::uint64_t width);
  void push_text(std::uint64_t bytes) { push_new(Kind::kText, pickle_.texts, take(bytes)); }
  void push_global(std::string_view module, std::string_view name);
  void remember(std::uint64_t place) { memo_[place] = top(); }
  void recall(std::uint64_t place) {
    const auto found = memo_.find(place);
    require(found != memo_.end(), "refers to a value that it has not made");
    stack_.push_back(found->second);
  }
  void extend(Kind kind, std::span<const PickleItem> items);
  void reduce();
  void build();
  void push_storage();
  void push_tensor(std::span<const PickleItem> args, bool typed);
  void check_metadata(const PickleItem& metadata);
  std::vector<std::int64_t> sizes_of(const PickleItem& item, std::string_view what);
  void check_reach(const PickleTensor& tensor) const;
  Weight weigh(const PickleItem& item, int depth);

  std::string_view bytes_;
  std::string_view file_;
  std::size_t at_ = 0;    // of the operation at hand
  std::size_t next_ = 0;  // of what is read next
  std::uint64_t steps_ = 0;
  Pickle pickle_{};
  std::vector<PickleItem> stack_{};
  std::vector<std::size_t> marks_{};
  std::unordered_map<std::uint64_t, PickleItem> memo_{};
  std::unordered_map<std::string_view, std::size_t> storages_{};  // by key
  std::vector<Weight> weights_{};                                 // of each list
};

bool PickleMachine::step() {
  at_ = next_;
  const auto code = static_cast<std::uint8_t>(take(1).front());
  switch (code) {
    case 0x80: {  // PROTO
      const std::uint64_t protocol = number(1);
      require(protocol >= 2 && protocol <= 5, "is of a protocol that is none of 2 to 5");
      break;
    }
    case 0x95:  // FRAME
      number(8);
      break;
    case '.':  // STOP
      return true;
    case '(':  // MARK
      marks_.push_back(stack_.size());
      break;
    case 'N':  // NONE
      push(Kind::kNone);
      break;
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      push(Kind::kBool, code == 0x88 ? 1 : 0);
      break;
    case 'J':  // BININT
      push(Kind::kInt, static_cast<std::int32_t>(number(4)));
      break;
    case 'K':  // BININT1
      push(Kind::kInt, static_cast<std::int64_t>(number(1)));
      break;
    case 'M':  // BININT2
      push(Kind::kInt, static_cast<std::int64_t>(number(2)));
      break;
    case 0x8a:  // LONG1
      push_long(number(1));
      break;
    case 'G': {  // BINFLOAT, big-endian
      const auto bits = __builtin_bswap64(number(8));
      push(Kind::kFloat, std::bit_cast<std::int64_t>(bits));
      break;
    }
    case 0x8c:  // SHORT_BINUNICODE
      push_text(number(1));
      break;
    case 'X':  // BINUNICODE
      push_text(number(4));
      break;
    case 0x8d:  // BINUNICODE8
      push_text(number(8));
      break;
    case ']':  // EMPTY_LIST
      push_new(Kind::kList, pickle_.lists, {});
      break;
    case '}':  // EMPTY_DICT
      push_new(Kind::kDict, pickle_.lists, {});
      break;
    case ')':  // EMPTY_TUPLE
      push_tuple(0);
      break;
    case 0x85:  // TUPLE1
    case 0x86:  // TUPLE2
    case 0x87:  // TUPLE3
      push_tuple(code - 0x84U);
      break;
    case 't':  // TUPLE
      push_new(Kind::kTuple, pickle_.lists, pop_to_mark());
      break;
    case 'a': {  // APPEND
      const PickleItem item = pop();
      extend(Kind::kList, std::span(&item, 1));
      break;
    }
    case 'e':  // APPENDS
      extend(Kind::kList, pop_to_mark());
      break;
    case 's': {  // SETITEM
      const PickleItem value = pop();
      const std::array items = {pop(), value};
      extend(Kind::kDict, items);
      break;
    }
    case 'u':  // SETITEMS
      extend(Kind::kDict, pop_to_mark());
      break;
    case 'c': {  // GLOBAL
      const std::string_view module = line();
      push_global(module, line());
      break;
    }
    case 0x93: {  // STACK_GLOBAL
      const PickleItem name = pop();
      const PickleItem module = pop();
      require(module.kind == Kind::kText && name.kind == Kind::kText, "names a class without text");
      push_global(text_of(module), text_of(name));
      break;
    }
    case 'R':  // REDUCE
      reduce();
      break;
    case 'b':  // BUILD
      build();
      break;
    case 'Q':  // BINPERSID
      push_storage();
      break;
    case 'q':  // BINPUT
      remember(number(1));
      break;
    case 'r':  // LONG_BINPUT
      remember(number(4));
      break;
    case 0x94:  // MEMOIZE
      remember(memo_.size());
      break;
    case 'h':  // BINGET
      recall(number(1));
      break;
    case 'j':  // LONG_BINGET
      recall(number(4));
      break;
    default:
      refuse(fmt::format("has the opcode 0x{:02x}, which no state dict needs", code));
  }
  return false;
}

void PickleMachine::push_tuple(std::size_t count) {
  std::vector<PickleItem> items(count);
  for (std::size_t i = count; i-- > 0;) items[i] = pop();
  push_new(Kind::kTuple, pickle_.lists, std::move(items));
}

void PickleMachine::push_long(std::uint64_t width) {
  require(width <= sizeof(std::int64_t),
          "has an integer of more than 8 bytes, wanted int64 (-2^63 to 2^63 - 1)");
  std::uint64_t value = number(width);
  const std::uint64_t bits = 8 * width;
  // The highest bit is the sign.
  if (width > 0 && bits < 64 && (value >> (bits - 1)) != 0) value |= ~std::uint64_t{0} << bits;
  push(Kind::kInt, static_cast<std::int64_t>(value));
}

void PickleMachine::push_global(std::string_view module, std::string_view name) {
  const std::string full = fmt::format("{}.{}", module, name);
  const auto found = std::ranges::find(kPickleNames, full, &PickleName::name);
  if (found != kPickleNames.end()) {
    push(Kind::kGlobal, found - kPickleNames.begin());
    return;
  }
  DL_CHECK(!is_foreign_dtype(full), kDType,
           "{}: data.pkl has tensors of {}, a dtype that dlrun does not have", file_,
           shown_name(full));
  throw_error(ErrorKind::kParse,
              "{}: data.pkl names {}, which is refused: tensors, dicts, lists, tuples, numbers and "
              "texts are read; in Python save model.state_dict(), not the model",
              file_, shown_name(full));
}

void PickleMachine::extend(Kind kind, std::span<const PickleItem> items) {
  const PickleItem target = top();
  require(target.kind == kind,
          kind == Kind::kList ? "appends to what is no list" : "sets an item of what is no dict");
  if (kind == Kind::kDict) {
    require(items.size() % 2 == 0, "sets a key without a value");
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const Kind key = items[i].kind;
      require(key == Kind::kText || key == Kind::kInt,
              "has a key that is neither text nor integer");
    }
  }
  std::vector<PickleItem>& list = list_of(target);
  list.insert(list.end(), items.begin(), items.end());
}

void PickleMachine::reduce() {
  const PickleItem args = pop();
  const PickleItem callee = pop();
  require(args.kind == Kind::kTuple && callee.kind == Kind::kGlobal, "calls what is no function");
  const std::span<const PickleItem> given(list_of(args));
  const PickleName& global = kPickleNames[callee.index()];
  switch (global.role) {
    case PickleRole::kOrderedDict:
      require(given.empty(), "makes an OrderedDict with arguments");
      push_new(Kind::kDict, pickle_.lists, {});
      break;
    case PickleRole::kSize:
      require(given.size() == 1 && given[0].kind == Kind::kTuple, "makes a Size of no tuple");
      stack_.push_back(given[0]);
      break;
    case PickleRole::kRebuildTensor:
      push_tensor(given, false);
      break;
    case PickleRole::kRebuildTensorTyped:
      push_tensor(given, true);
      break;
    case PickleRole::kRebuildParameter: {
      require(given.size() == 3 && given[0].kind == Kind::kTensor && given[1].kind == Kind::kBool,
              "makes a Parameter of other arguments than tensor, bool and hooks");
      PickleTensor tensor = pickle_.tensors[given[0].index()];
      tensor.requires_grad = given[1].number != 0;
      require(!tensor.requires_grad || is_floating(tensor.dtype),
              "has integers that require gradients");
      push_new(Kind::kTensor, pickle_.tensors, std::move(tensor));
      break;
    }
    default:
      refuse(fmt::format("calls {}, which is no function", global.name));
  }
}

// Attributes of an object: an OrderedDict's _metadata, which says the versions of modules. None of
// the modules here has another version than its first.
void PickleMachine::build() {
  const PickleItem state = pop();
  require(top().kind == Kind::kDict && state.kind == Kind::kDict,
          "sets attributes of what is no OrderedDict");
}

void PickleMachine::push_storage() {
  const PickleItem id = pop();
  constexpr std::string_view kWhat =
      "has a storage that is not (\"storage\", type, key, location, count)";
  require(id.kind == Kind::kTuple, kWhat);
  const std::vector<PickleItem>& parts = list_of(id);
  require(parts.size() == 5 && parts[0].kind == Kind::kText && text_of(parts[0]) == "storage" &&
              (is_role(parts[1], PickleRole::kStorageType) ||
               is_role(parts[1], PickleRole::kUntypedStorage)) &&
              parts[2].kind == Kind::kText && parts[3].kind == Kind::kText &&
              parts[4].kind == Kind::kInt && parts[4].number >= 0,
          kWhat);
  // Sums and products of such counts stay below 2^63.
  require(parts[4].number <= std::int64_t{1} << 59, "has a storage of more than 2^59 elements");
  PickleStorage storage{.key = text_of(parts[2]),
                        .dtype = std::nullopt,
                        .bytes = static_cast<std::uint64_t>(parts[4].number)};
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
  push(Kind::kStorage, static_cast<std::int64_t>(found->second));
}

void PickleMachine::push_tensor(std::span<const PickleItem> args, bool typed) {
  const std::size_t least = typed ? 7 : 6;
  require((args.size() == least || args.size() == least + 1) && args[0].kind == Kind::kStorage &&
              args[1].kind == Kind::kInt && args[4].kind == Kind::kBool &&
              (!typed || is_role(args[6], PickleRole::kDType)),
          "makes a tensor of other arguments than storage, offset, size, stride, requires_grad and "
          "hooks");
  if (args.size() > least) check_metadata(args[least]);
  PickleStorage& storage = pickle_.storages[args[0].index()];
  if (typed && !storage.dtype) {
    storage.dtype = kPickleNames[args[6].index()].dtype;
    require(storage.bytes % size_of(*storage.dtype) == 0, "has a storage of half elements");
  }
  require(storage.dtype && (!typed || *storage.dtype == kPickleNames[args[6].index()].dtype),
          "has a tensor without a dtype, or a storage with two");
  PickleTensor tensor{.storage = args[0].index(),
                      .dtype = *storage.dtype,
                      .offset = args[1].number,
                      .shape = sizes_of(args[2], "sizes"),
                      .strides = sizes_of(args[3], "strides"),
                      .requires_grad = args[4].number != 0};
  require(tensor.shape.size() == tensor.strides.size(),
          "has a tensor with too few or many strides");
  require(!tensor.requires_grad || is_floating(tensor.dtype),
          "has integers that require gradients");
  check_reach(tensor);
  // An empty view may begin anywhere, as x.narrow(0, 3, 0) of an x that ends before.
  const auto held = static_cast<std::int64_t>(storage.bytes / size_of(tensor.dtype));
  tensor.offset = std::min(tensor.offset, held);
  push_new(Kind::kTensor, pickle_.tensors, std::move(tensor));
}

// PyTorch writes {"neg": True} for a tensor whose numbers are those of its storage with the other
// sign, and {"conj": True} for a conjugated one.
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
        items[i].kind == Kind::kText ? shown_name(text_of(items[i]))
                                     : std::to_string(items[i].number)));
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

void PickleMachine::check_reach(const PickleTensor& tensor) const {
  const PickleStorage& storage = pickle_.storages[tensor.storage];
  const auto held = static_cast<std::int64_t>(storage.bytes / size_of(tensor.dtype));
  // Checked even for a tensor without elements: its other sizes are multiplied with each other
  // later.
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

PickleMachine::Weight PickleMachine::weigh(const PickleItem& item, int depth) {
  if (item.kind == Kind::kText) return {.values = 1 + text_of(item).size() / 16};
  if (item.kind == Kind::kGlobal) {
    refuse(fmt::format("has {} as a value, which cannot be kept", kPickleNames[item.index()].name));
  }
  require(item.kind != Kind::kStorage, "has a storage as a value, wanted a tensor");
  if (item.kind != Kind::kList && item.kind != Kind::kTuple && item.kind != Kind::kDict) {
    return {.values = 1};
  }
  Weight& known = weights_[item.index()];
  require(!known.open, "has a list or dict that contains itself");
  require(depth + std::max(known.height, 1) <= kMaxPickleDepth,
          "has containers too deep inside each other");
  if (known.values > 0) return known;
  known.open = true;
  Weight sum{.values = 1, .height = 1};
  for (const PickleItem& inside : pickle_.lists[item.index()]) {
    const Weight weight = weigh(inside, depth + 1);
    sum.values += weight.values;
    sum.height = std::max(sum.height, weight.height + 1);
    require(sum.values <= kMaxPickleSteps, "holds too many values once each stands alone");
  }
  known = sum;
  return sum;
}

}  // namespace

Pickle read_pickle(std::string_view bytes, std::string_view file) {
  return PickleMachine(bytes, file).run();
}

}  // namespace dl::nn
