// Reads the pickle of a PyTorch file (torch.save, protocols 2 to 5) without running anything of it.
//
// The result is a table of values that refer to each other by index. The classes and functions that
// torch.load(weights_only=True) takes are known by name (OrderedDict, _rebuild_tensor_v2, ...); any
// other name is refused, and so is each opcode that torch.save does not write for these values.
// Time and memory are linear in the pickle's length and bounded by kMaxPickleSteps. Pure functions
// of memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"

namespace dl::nn {

// Opcodes of a pickle, and the size of its value when each reference is a copy of its own (a list
// that stands twice counts twice; 16 bytes of text count as one).
inline constexpr std::uint64_t kMaxPickleSteps = 20'000'000;
// Lists, tuples and dicts inside each other.
inline constexpr int kMaxPickleDepth = 64;

enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kText,     // an index into texts
  kList,     // into lists
  kTuple,    // into lists
  kDict,     // into lists: key, value, key, value, ...
  kSet,      // into lists
  kComplex,  // into lists: two floats
  kBytes,    // into texts
  kBigInt,   // into texts: bytes of the number, little-endian, in two's complement; not an int64
  kTensor,   // into tensors
  kStorage,  // into the storages' parts; not in a result
  kGlobal,   // into kPickleNames; in a result a dtype or a constant
};

struct PickleItem {
  PickleKind kind = PickleKind::kNone;
  std::int64_t number = 0;  // the value, the double's bits, or the index

  double real() const noexcept { return std::bit_cast<double>(number); }
  std::size_t index() const noexcept { return static_cast<std::size_t>(number); }
};

struct PickleStorage {
  std::string_view key;  // the bytes stand in the entry data/<key>
  // The dtype of all tensors on it; nullopt if there are no tensors and the storage's type does not
  // tell.
  std::optional<DType> dtype;
  std::uint64_t bytes;  // whole elements
  std::uint64_t count;  // as the pickle announces it: elements, or bytes without a type
};

struct PickleTensor {
  std::size_t storage;
  DType dtype;
  // In elements, not negative; all that they reach lies in the storage.
  std::int64_t offset;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  bool requires_grad;
};

struct Pickle {
  PickleItem root{};
  std::vector<std::string_view> texts{};
  std::deque<std::string> made_texts{};  // those of `texts` that are not in the pickle
  std::vector<std::vector<PickleItem>> lists{};
  std::vector<PickleTensor> tensors{};
  std::vector<PickleStorage> storages{};
};

// What a key of a dict or an element of a set may be: no container but a tuple of such, no tensor.
bool is_hashable(const Pickle& pickle, const PickleItem& item);

// `bytes` must outlive the result, which refers to its texts. No container of the result contains
// itself, none stands deeper than kMaxPickleDepth, and keys are hashable. Throws kParse, or kDType
// for a dtype that dlrun does not have: one sentence that begins with `file`.
Pickle read_pickle(std::string_view bytes, std::string_view file);
// As read_pickle(), of a file that begins with several pickles: reads that from byte `at` on, and
// moves `at` behind it. Returns nullopt if the pickle goes on beyond `bytes`.
std::optional<Pickle> read_next_pickle(std::string_view bytes, std::string_view file,
                                       std::size_t& at);

}  // namespace dl::nn
