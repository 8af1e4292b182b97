// Reads the pickle of a PyTorch file (torch.save, protocols 2 to 5) without running anything of it.
//
// The result is a table of values that refer to each other by index. The classes and functions that
// a state dict needs are known by name (OrderedDict, _rebuild_tensor_v2, FloatStorage, ...); any
// other name is refused, and so is each opcode that torch.save does not write for these values.
// Time and memory are linear in the pickle's length and bounded by kMaxPickleSteps. Pure functions
// of memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
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
  kTensor,   // into tensors
  kStorage,  // into storages
  kGlobal,   // into kPickleNames
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
  std::vector<std::vector<PickleItem>> lists{};
  std::vector<PickleTensor> tensors{};
  std::vector<PickleStorage> storages{};
};

// `bytes` must outlive the result, which refers to its texts. No container of the result contains
// itself, and none stands deeper than kMaxPickleDepth. Throws kParse, or kDType for a dtype that
// dlrun does not have: one sentence that begins with `file`.
Pickle read_pickle(std::string_view bytes, std::string_view file);

}  // namespace dl::nn
