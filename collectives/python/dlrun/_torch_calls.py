"""PyTorch's tensors and reductions as calls of the library."""

import ctypes
from typing import Any, Callable, Optional, Sequence

import torch

from dlrun import _library
from dlrun._buffers import DTYPE_NAMES
from dlrun.errors import InvalidArgument
from dlrun.group import _OPS

_DTYPES = {
    torch.float16: DTYPE_NAMES["f16"],
    torch.bfloat16: DTYPE_NAMES["bf16"],
    torch.float32: DTYPE_NAMES["f32"],
    torch.float64: DTYPE_NAMES["f64"],
    torch.int8: DTYPE_NAMES["i8"],
    torch.uint8: DTYPE_NAMES["u8"],
    torch.int16: DTYPE_NAMES["i16"],
    torch.int32: DTYPE_NAMES["i32"],
    torch.int64: DTYPE_NAMES["i64"],
    torch.bool: DTYPE_NAMES["bool"],
    torch.complex64: DTYPE_NAMES["c64"],
    torch.complex128: DTYPE_NAMES["c128"],
}
_REDUCTIONS = {
    "SUM": 0,
    "AVG": 1,
    "MIN": 2,
    "MAX": 3,
    "PRODUCT": 4,
    "BAND": 5,
    "BOR": 6,
    "BXOR": 7,
}
NAMES = {number: name for name, number in _OPS.items()}


def refuse(text: str) -> InvalidArgument:
    return InvalidArgument(f"backend dlrun: {text}", "invalid argument")


def nothing() -> None:
    pass


def one(tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise refuse(f"takes one tensor a rank, not {len(tensors)}")
    return tensors[0]


def dense(tensor: Any) -> Any:
    """The tensor, or a contiguous copy."""
    if tensor.is_sparse:
        raise refuse("sparse tensors are not supported; make them dense")
    if tensor.device.type != "cpu":
        raise refuse(f"moves CPU tensors, not {tensor.device}'s; use \"cpu:dlrun,cuda:nccl\"")
    return tensor.contiguous()


def back(data: Any, tensor: Any) -> Callable[[], None]:
    """What brings the result from a contiguous copy into the tensor."""
    if data.data_ptr() == tensor.data_ptr() and tensor.is_contiguous():
        return nothing
    return lambda: (tensor.copy_(data), None)[1]


def cut(flat: Any, parts: Sequence[Any]) -> None:
    at = 0
    for part in parts:
        part.copy_(flat[at : at + part.numel()].view(part.shape))
        at += part.numel()


def reduction_of(op: Any) -> tuple[int, Optional[float]]:
    """The number of the reduction, and a factor."""
    kind = getattr(op, "op", op)
    name = str(kind).rsplit(".", 1)[-1]
    if name == "PREMUL_SUM":
        factor = op.__getstate__()[1]
        return 0, float(factor)
    if name not in _REDUCTIONS:
        raise refuse(f"has no reduction {name}")
    return _REDUCTIONS[name], None


def call_of(name: str, of: Any, given: Any, taken: Any, count: int = 0, *, peer: int = 0, tag: int = 0,
          reduce: int = 0, input_counts: Any = None, output_counts: Any = None) -> Any:
    dtype = _DTYPES.get(of.dtype)
    if dtype is None:
        raise refuse(f"has no dtype {of.dtype}")
    call = _library.Call(
        struct_size=ctypes.sizeof(_library.Call),
        op=_OPS[name],
        dtype=dtype,
        reduce=reduce,
        input=given.data_ptr() if given is not None else None,
        output=taken.data_ptr() if taken is not None else None,
        count=count,
        peer=peer,
        tag=tag,
    )
    if input_counts is not None:
        call.input_counts = (ctypes.c_size_t * len(input_counts))(*input_counts)
    if output_counts is not None:
        call.output_counts = (ctypes.c_size_t * len(output_counts))(*output_counts)
    return call
