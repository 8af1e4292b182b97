// The classes, functions and dtypes that the pickle of a state dict may name, and their roles:
// those that torch.load(weights_only=True) accepts (torch/_weights_only_unpickler.py of 2.15),
// except sparse and quantized tensors.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/tensor/dtype.h"

namespace dl::nn {

enum class PickleRole : std::uint8_t {
  kOrderedDict,  // also Counter: nothing, a dict, or pairs of a key and a value
  kSize,
  kRebuildTensorPlain,      // storage, offset, size, stride
  kRebuildTensor,           // ..., requires_grad, hooks
  kRebuildTensorTyped,      // ..., dtype
  kRebuildParameter,        // data, requires_grad, hooks
  kRebuildParameterPlain,   // data, requires_grad
  kRebuildParameterStated,  // data, requires_grad, hooks, attributes
  kRebuildFromType,         // one of these functions, class, arguments, attributes
  kTensorClass,
  kStorageType,
  kUntypedStorage,
  kDType,
  kForeignDType,  // one that dlrun does not have
  kConstant,      // a value
  kDevice,        // type, index
  kLayout,        // name
  kEncode,        // text, "latin1"
  kBytes,         // nothing, bytes, or text and "latin-1"
  kSet,           // nothing, or a list
  kComplex,       // real, imaginary
};

struct PickleName {
  std::string_view name;
  PickleRole role;
  DType dtype = DType::kF32;  // of a storage type or a dtype
};

inline constexpr std::array kPickleNames = {
    PickleName{"collections.OrderedDict", PickleRole::kOrderedDict},
    PickleName{"torch.Size", PickleRole::kSize},
    PickleName{"collections.Counter", PickleRole::kOrderedDict},
    PickleName{"torch._utils._rebuild_tensor", PickleRole::kRebuildTensorPlain},
    PickleName{"torch._utils._rebuild_tensor_v2", PickleRole::kRebuildTensor},
    PickleName{"torch._utils._rebuild_tensor_v3", PickleRole::kRebuildTensorTyped},
    PickleName{"torch._utils._rebuild_parameter", PickleRole::kRebuildParameter},
    PickleName{"torch._utils._rebuild_parameter_with_state", PickleRole::kRebuildParameterStated},
    PickleName{"torch.nn.parameter.Parameter", PickleRole::kRebuildParameterPlain},
    PickleName{"torch._tensor._rebuild_from_type_v2", PickleRole::kRebuildFromType},
    PickleName{"torch.Tensor", PickleRole::kTensorClass},
    PickleName{"torch.device", PickleRole::kDevice},
    PickleName{"torch.serialization._get_layout", PickleRole::kLayout},
    PickleName{"_codecs.encode", PickleRole::kEncode},
    PickleName{"builtins.bytearray", PickleRole::kBytes},
    PickleName{"builtins.bytes", PickleRole::kBytes},
    PickleName{"builtins.set", PickleRole::kSet},
    PickleName{"builtins.complex", PickleRole::kComplex},
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
    PickleName{"torch.complex32", PickleRole::kForeignDType},
    PickleName{"torch.complex64", PickleRole::kForeignDType},
    PickleName{"torch.complex128", PickleRole::kForeignDType},
    PickleName{"torch.float8_e4m3fn", PickleRole::kForeignDType},
    PickleName{"torch.float8_e4m3fnuz", PickleRole::kForeignDType},
    PickleName{"torch.float8_e5m2", PickleRole::kForeignDType},
    PickleName{"torch.float8_e5m2fnuz", PickleRole::kForeignDType},
    PickleName{"torch.float8_e8m0fnu", PickleRole::kForeignDType},
    PickleName{"torch.float4_e2m1fn_x2", PickleRole::kForeignDType},
    PickleName{"torch.qint8", PickleRole::kForeignDType},
    PickleName{"torch.quint8", PickleRole::kForeignDType},
    PickleName{"torch.qint32", PickleRole::kForeignDType},
    PickleName{"torch.quint4x2", PickleRole::kForeignDType},
    PickleName{"torch.quint2x4", PickleRole::kForeignDType},
    PickleName{"torch.bits1x8", PickleRole::kForeignDType},
    PickleName{"torch.bits2x4", PickleRole::kForeignDType},
    PickleName{"torch.bits4x2", PickleRole::kForeignDType},
    PickleName{"torch.bits8", PickleRole::kForeignDType},
    PickleName{"torch.bits16", PickleRole::kForeignDType},
    PickleName{"torch.uint1", PickleRole::kForeignDType},
    PickleName{"torch.uint2", PickleRole::kForeignDType},
    PickleName{"torch.uint3", PickleRole::kForeignDType},
    PickleName{"torch.uint4", PickleRole::kForeignDType},
    PickleName{"torch.uint5", PickleRole::kForeignDType},
    PickleName{"torch.uint6", PickleRole::kForeignDType},
    PickleName{"torch.uint7", PickleRole::kForeignDType},
    PickleName{"torch.int1", PickleRole::kForeignDType},
    PickleName{"torch.int2", PickleRole::kForeignDType},
    PickleName{"torch.int3", PickleRole::kForeignDType},
    PickleName{"torch.int4", PickleRole::kForeignDType},
    PickleName{"torch.int5", PickleRole::kForeignDType},
    PickleName{"torch.int6", PickleRole::kForeignDType},
    PickleName{"torch.int7", PickleRole::kForeignDType},
    PickleName{"torch.per_tensor_affine", PickleRole::kConstant},
    PickleName{"torch.per_tensor_symmetric", PickleRole::kConstant},
    PickleName{"torch.per_channel_affine", PickleRole::kConstant},
    PickleName{"torch.per_channel_symmetric", PickleRole::kConstant},
    PickleName{"torch.per_channel_affine_float_qparams", PickleRole::kConstant},
};

// Names of tensors with dtypes that dlrun does not have; they get a better error text than an
// unknown class.
inline bool is_foreign_tensor(std::string_view name) {
  return (name.starts_with("torch.") && name.ends_with("Storage")) ||
         name == "torch._utils._rebuild_qtensor";
}

}  // namespace dl::nn
