// The classes, functions and dtypes that the pickle of a state dict names, and what each is for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/tensor/dtype.h"

namespace dl::nn {

enum class PickleRole : std::uint8_t {
  kOrderedDict,
  kSize,
  kRebuildTensor,       // storage, offset, size, stride, requires_grad, hooks
  kRebuildTensorTyped,  // ..., dtype
  kRebuildParameter,    // data, requires_grad, hooks
  kStorageType,
  kUntypedStorage,
  kDType,
};

struct PickleName {
  std::string_view name;
  PickleRole role;
  DType dtype = DType::kF32;  // of a storage type or a dtype
};

inline constexpr std::array kPickleNames = {
    PickleName{"collections.OrderedDict", PickleRole::kOrderedDict},
    PickleName{"torch.Size", PickleRole::kSize},
    PickleName{"torch._utils._rebuild_tensor_v2", PickleRole::kRebuildTensor},
    PickleName{"torch._utils._rebuild_tensor_v3", PickleRole::kRebuildTensorTyped},
    PickleName{"torch._utils._rebuild_parameter", PickleRole::kRebuildParameter},
    PickleName{"torch.HalfStorage", PickleRole::kStorageType, DType::kF16},
    PickleName{"torch.BFloat16Storage", PickleRole::kStorageType, DType::kBF16},
    PickleName{"torch.FloatStorage", PickleRole::kStorageType, DType::kF32},
    PickleName{"torch.DoubleStorage", PickleRole::kStorageType, DType::kF64},
    PickleName{"torch.CharStorage", PickleRole::kStorageType, DType::kI8},
    PickleName{"torch.ByteStorage", PickleRole::kStorageType, DType::kU8},
    PickleName{"torch.ShortStorage", PickleRole::kStorageType, DType::kI16},
    PickleName{"torch.IntStorage", PickleRole::kStorageType, DType::kI32},
    PickleName{"torch.LongStorage", PickleRole::kStorageType, DType::kI64},
    PickleName{"torch.BoolStorage", PickleRole::kStorageType, DType::kBool},
    PickleName{"torch.storage.UntypedStorage", PickleRole::kUntypedStorage},
    PickleName{"torch.UntypedStorage", PickleRole::kUntypedStorage},
    PickleName{"torch.float16", PickleRole::kDType, DType::kF16},
    PickleName{"torch.bfloat16", PickleRole::kDType, DType::kBF16},
    PickleName{"torch.float32", PickleRole::kDType, DType::kF32},
    PickleName{"torch.float64", PickleRole::kDType, DType::kF64},
    PickleName{"torch.int8", PickleRole::kDType, DType::kI8},
    PickleName{"torch.uint8", PickleRole::kDType, DType::kU8},
    PickleName{"torch.int16", PickleRole::kDType, DType::kI16},
    PickleName{"torch.uint16", PickleRole::kDType, DType::kU16},
    PickleName{"torch.int32", PickleRole::kDType, DType::kI32},
    PickleName{"torch.uint32", PickleRole::kDType, DType::kU32},
    PickleName{"torch.int64", PickleRole::kDType, DType::kI64},
    PickleName{"torch.uint64", PickleRole::kDType, DType::kU64},
    PickleName{"torch.bool", PickleRole::kDType, DType::kBool},
};

// Names of tensors that exist in PyTorch alone: a better error than that for a foreign class.
inline bool is_foreign_dtype(std::string_view name) {
  return name.starts_with("torch.complex") || name.starts_with("torch.float") ||
         name.starts_with("torch.q") || name.starts_with("torch.bits") ||
         (name.starts_with("torch.") && name.ends_with("Storage")) ||
         name == "torch._utils._rebuild_qtensor";
}

}  // namespace dl::nn
