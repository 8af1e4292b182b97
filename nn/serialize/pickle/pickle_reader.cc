#include "nn/serialize/pickle/pickle_reader.h"

#include <algorithm>
#include <array>

#include "nn/serialize/pickle/pickle_machine.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::nn {
namespace {

// True if a global may be a value.
bool is_value(PickleRole role) noexcept {
  return role == PickleRole::kDType || role == PickleRole::kForeignDType ||
         role == PickleRole::kConstant;
}

}  // namespace

Pickle PickleMachine::run() {
  while (!step()) {
    DL_CHECK(++steps_ <= kMaxPickleSteps, kParse, "{}: {} has more than {} operations", file_,
             what_, kMaxPickleSteps);
  }
  pickle_.root = pop();
  require(stack_.empty() && marks_.empty(), "ends with more than one value");
  weights_.resize(pickle_.lists.size());
  weigh(pickle_.root, 0);
  return std::move(pickle_);
}

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
    case 'C':  // SHORT_BINBYTES
      push_bytes(number(1));
      break;
    case 'B':  // BINBYTES
      push_bytes(number(4));
      break;
    case 0x8e:  // BINBYTES8
    case 0x96:  // BYTEARRAY8
      push_bytes(number(8));
      break;
    case 'U':  // SHORT_BINSTRING: a str of Python 2
      push_text(number(1));
      break;
    case 'T':  // BINSTRING
      push_text(number(4));
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
    case 0x8f:  // EMPTY_SET
      push_new(Kind::kSet, pickle_.lists, {});
      break;
    case 0x90:  // ADDITEMS
      extend(Kind::kSet, pop_to_mark());
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
    case 0x81:  // NEWOBJ
      make_object();
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

void PickleMachine::push_made(Kind kind, std::string text) {
  steps_ += text.size() / 16;
  pickle_.made_texts.push_back(std::move(text));
  push_new(kind, pickle_.texts, std::string_view(pickle_.made_texts.back()));
}

void PickleMachine::push_long(std::uint64_t width) {
  std::string_view bytes = take(width);
  // The highest bit is the sign; further sign bytes are redundant.
  const auto is_negative = [](char byte) { return (byte & 0x80) != 0; };
  while (bytes.size() > sizeof(std::int64_t)) {
    const bool negative = is_negative(bytes[bytes.size() - 2]);
    if (bytes.back() != (negative ? '\xff' : '\0')) break;
    bytes.remove_suffix(1);
  }
  if (bytes.size() > sizeof(std::int64_t)) return push_new(Kind::kBigInt, pickle_.texts, bytes);
  std::uint64_t value = !bytes.empty() && is_negative(bytes.back()) ? ~std::uint64_t{0} : 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  }
  push(Kind::kInt, static_cast<std::int64_t>(value));
}

void PickleMachine::push_global(std::string_view module, std::string_view name) {
  std::string_view home = module;
  if (module == "__builtin__") home = "builtins";  // as Python 2 and protocol 2 call it
  if (module == "torch.cuda" && name.ends_with("Storage")) home = "torch";
  const auto found =
      std::ranges::find(kPickleNames, fmt::format("{}.{}", home, name), &PickleName::name);
  if (found != kPickleNames.end()) {
    push(Kind::kGlobal, found - kPickleNames.begin());
    return;
  }
  const std::string full = fmt::format("{}.{}", module, name);
  DL_CHECK(!is_foreign_tensor(full), kDType,
           "{}: {} has tensors of {}, a dtype that dlrun does not have", file_, what_,
           shown_name(full));
  const bool is_tensor = full.starts_with("torch._utils._rebuild_") ||
                         (full.starts_with("torch.") && full.ends_with("Tensor"));
  DL_CHECK(!is_tensor, kParse,
           "{}: {} has a tensor of {}, which is not read; in Python save dense tensors of the CPU",
           file_, what_, shown_name(full));
  throw_error(
      ErrorKind::kParse,
      "{}: {} names {}, which torch.load(weights_only=True) refuses, too; in Python save {}", file_,
      what_, shown_name(full),
      full.starts_with("numpy") ? "numbers with x.item() and arrays as torch.from_numpy(x)"
                                : "model.state_dict(), not the model, and other objects as "
                                  "texts, numbers, lists and dicts");
}

void PickleMachine::extend(Kind kind, std::span<const PickleItem> items) {
  const PickleItem target = top();
  require(target.kind == kind, kind == Kind::kList  ? "appends to what is no list"
                               : kind == Kind::kSet ? "adds to what is no set"
                                                    : "sets an item of what is no dict");
  require(kind != Kind::kDict || items.size() % 2 == 0, "sets a key without a value");
  std::vector<PickleItem>& list = list_of(target);
  list.insert(list.end(), items.begin(), items.end());
}

// Attributes of an object: an OrderedDict's _metadata, which has the versions of modules. All
// modules here have only their first version.
void PickleMachine::build() {
  const PickleItem state = pop();
  require(top().kind == Kind::kDict && state.kind == Kind::kDict,
          "sets attributes of what is no OrderedDict");
}

PickleMachine::Weight PickleMachine::weigh(const PickleItem& item, int depth) {
  if (item.kind == Kind::kText || item.kind == Kind::kBytes) {
    return {.values = 1 + text_of(item).size() / 16};
  }
  if (item.kind == Kind::kBigInt) {
    // Counts the time to convert it to decimal digits.
    const std::uint64_t bytes = text_of(item).size();
    return {.values = 1 + bytes * bytes / 32};
  }
  if (item.kind == Kind::kGlobal && !is_value(kPickleNames[item.index()].role)) {
    refuse(fmt::format("has {} as a value, which cannot be kept", kPickleNames[item.index()].name));
  }
  require(item.kind != Kind::kStorage, "has a storage as a value, wanted a tensor");
  if (item.kind != Kind::kList && item.kind != Kind::kTuple && item.kind != Kind::kDict &&
      item.kind != Kind::kSet) {
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
  // Tuples in keys are not deeper than the values measured above.
  const bool is_dict = item.kind == Kind::kDict;
  if (is_dict || item.kind == Kind::kSet) {
    const std::vector<PickleItem>& items = pickle_.lists[item.index()];
    for (std::size_t i = 0; i < items.size(); i += is_dict ? 2 : 1) {
      require(is_hashable(pickle_, items[i]),
              is_dict ? "has a list, dict, set or tensor as the key of a dict"
                      : "has a list, dict, set or tensor in a set");
    }
  }
  known = sum;
  return sum;
}

bool is_hashable(const Pickle& pickle, const PickleItem& item) {
  using enum PickleKind;
  if (item.kind == kTuple) {
    return std::ranges::all_of(pickle.lists[item.index()],
                               [&](const PickleItem& each) { return is_hashable(pickle, each); });
  }
  return item.kind != kList && item.kind != kDict && item.kind != kSet && item.kind != kTensor;
}

Pickle read_pickle(std::string_view bytes, std::string_view file) {
  PickleMachine machine(bytes, file, "data.pkl");
  try {
    return machine.run();
  } catch (const PickleMachine::Truncated&) {
    machine.refuse("is truncated");
  }
}

std::optional<Pickle> read_next_pickle(std::string_view bytes, std::string_view file,
                                       std::size_t& at) {
  const std::string what = fmt::format("its pickle at byte {}", at);
  PickleMachine machine(bytes.substr(at), file, what);
  try {
    Pickle pickle = machine.run();
    at += machine.length();
    return pickle;
  } catch (const PickleMachine::Truncated&) {
    return std::nullopt;
  }
}

}  // namespace dl::nn
