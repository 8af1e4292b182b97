"""PyTorch's tensors and reductions as calls of the library."""

import ctypes
from typing import Any, Callable, Optional, Sequence

import torch

from dlrun import _library
from dlrun._buffers import DTYPE_NAMES
from dlrun._torch_versions import CUDA_ADVICE
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
    torch.uint16: DTYPE_NAMES["u16"],
    torch.int32: DTYPE_NAMES["i32"],
    torch.uint32: DTYPE_NAMES["u32"],
    torch.int64: DTYPE_NAMES["i64"],
    torch.uint64: DTYPE_NAMES["u64"],
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
# What does no arithmetic moves elements of other dtypes, such as float8, as bytes.
_ARITHMETIC = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatterv")
NAMES = {number: name for name, number in _OPS.items()}


def refuse(text: str) -> InvalidArgument:
    return InvalidArgument(f"backend dlrun: {text}", "invalid argument")


def nothing() -> None:
    pass


def one(tensors: Sequence[Any]) -> Any:
    if isinstance(tensors, torch.Tensor):  # DDP's, to a group that is a backend (_torch_versions)
        return tensors
    if len(tensors) != 1:
        raise refuse(f"takes one tensor a rank, not {len(tensors)}")
    return tensors[0]


def _check_place(tensor: Any) -> None:
    if tensor.layout != torch.strided:
        raise refuse("sparse tensors are not supported; make them dense")
    if tensor.device.type != "cpu":
        raise refuse(f"moves CPU tensors, not {tensor.device}'s; {CUDA_ADVICE}")


def dense(tensor: Any) -> Any:
    """The tensor, or a contiguous copy."""
    _check_place(tensor)
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


# The library trusts what a call says of its memory. So each list of tensors passes check_parts(), and
# each call is made by call_of(), before anything starts.


def check_parts(name: str, side: str, parts: Sequence[Any], size: int, of: Any, each: Optional[int]) -> None:
    """Refuses parts, one for each rank, that are not of the dtype of `of`, or not of `each` elements."""
    if len(parts) != size:
        raise refuse(f"{name}: {len(parts)} {side}s, wanted one for each of {size} ranks")
    for i, part in enumerate(parts):
        _check_place(part)
        _same(f"{name}: {side} {i}", part, of.dtype, each)


def _same(what: str, tensor: Any, dtype: Any, count: Optional[int]) -> None:
    if tensor.dtype != dtype:
        raise refuse(f"{what} is of {tensor.dtype}, wanted {dtype}")
    if count is not None and tensor.numel() != count:
        raise refuse(f"{what} has {tensor.numel()} elements, wanted {count}")


def splits(name: str, side: str, tensor: Any, rows: Sequence[int], size: int) -> list[int]:
    """The elements of each rank's part of a tensor, whose rows are split; without `rows` evenly."""
    if not rows:
        if tensor.numel() % size:
            raise refuse(f"{name}: {side} has {tensor.numel()} elements, wanted a multiple of {size}")
        return [tensor.numel() // size] * size
    if len(rows) != size:
        raise refuse(f"{name}: {len(rows)} split sizes of the {side}, wanted one for each of {size} ranks")
    if min(rows) < 0:
        raise refuse(f"{name}: split sizes must not be negative, and one of the {side} is {min(rows)}")
    row = tensor.numel() // tensor.shape[0] if tensor.dim() and tensor.shape[0] else 1
    if sum(rows) * row != tensor.numel():
        held = tensor.shape[0] if tensor.dim() else 1
        raise refuse(f"{name}: split sizes of the {side} add to {sum(rows)}, wanted {held}")
    return [r * row for r in rows]


def call_of(name: str, given: Any, taken: Any, count: int, reads: int, writes: int, *, peer: int = 0,
            tag: int = 0, reduce: int = 0, input_counts: Any = None, output_counts: Any = None) -> Any:
    """The call, in which this rank reads so many elements of `given`, and writes so many of `taken`."""
    known = taken if given is None else given
    if given is not None:
        _same(f"{name}: input", given, known.dtype, reads)
    if taken is not None:
        _same(f"{name}: output", taken, known.dtype, writes)
    dtype, unit = _DTYPES.get(known.dtype), 1
    if dtype is None:
        if name in _ARITHMETIC or known.is_quantized:
            raise refuse(f"{name} has no dtype {known.dtype}")
        dtype, unit = DTYPE_NAMES["u8"], known.element_size()
    call = _library.Call(
        struct_size=ctypes.sizeof(_library.Call),
        op=_OPS[name],
        dtype=dtype,
        reduce=reduce,
        input=given.data_ptr() if given is not None else None,
        output=taken.data_ptr() if taken is not None else None,
        count=count * unit,
        peer=peer,
        tag=tag,
    )
    if input_counts is not None:
        call.input_counts = (ctypes.c_size_t * len(input_counts))(*(c * unit for c in input_counts))
    if output_counts is not None:
        call.output_counts = (ctypes.c_size_t * len(output_counts))(*(c * unit for c in output_counts))
    return call
