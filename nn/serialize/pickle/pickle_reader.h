// Reads the pickle of a PyTorch file (torch.save, protocols 2 to 5) without executing any of it.
//
// The result is a table of values that refer to each other by index. The classes and functions that
// torch.load(weights_only=True) accepts are known by name (OrderedDict, _rebuild_tensor_v2, ...).
// Any other name throws, and so does an opcode that torch.save does not write for these values.
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

// The limit for the opcodes of a pickle, and for the size of its value if each reference is copied
// (a list that is referenced twice counts twice; 16 bytes of text count as one).
inline constexpr std::uint64_t kMaxPickleSteps = 20'000'000;
// The deepest nesting of lists, tuples and dicts.
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
  std::string_view key;  // the bytes are in the entry data/<key>
  // The dtype of all tensors on it; nullopt if there are no tensors and the storage is untyped.
  std::optional<DType> dtype;
  std::uint64_t bytes;  // whole elements
  std::uint64_t count;  // as in the pickle: elements, or bytes if untyped
};

struct PickleTensor {
  std::size_t storage;
  DType dtype;
  // In elements, not negative; all elements are inside the storage.
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

// True if the item may be a dict's key or a set's element: not a tensor, and no container except a
// tuple of hashable items.
bool is_hashable(const Pickle& pickle, const PickleItem& item);

// `bytes` must outlive the result, which refers to its texts. No container of the result contains
// itself or is nested deeper than kMaxPickleDepth, and keys are hashable. Throws kParse, or kDType
// for a dtype that dlrun does not have: one sentence that begins with `file`.
Pickle read_pickle(std::string_view bytes, std::string_view file);
// read_pickle() for a file with several consecutive pickles: reads the one that begins at byte
// `at`, and moves `at` to its end. Returns nullopt if the pickle continues after `bytes`.
std::optional<Pickle> read_next_pickle(std::string_view bytes, std::string_view file,
                                       std::size_t& at);

}  // namespace dl::nn
