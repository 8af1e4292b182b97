"""Memory of NumPy arrays, array.array, bytearray, and whatever else has the buffer protocol."""

import ctypes
from typing import Any, NamedTuple

from dlrun.errors import InvalidArgument

# Numbers of dl_dtype by what a buffer says of its elements: letter and bytes.
_LETTERS = {"f": "f", "d": "f", "e": "f", "?": "?", "c": "B", "Zf": "Z", "Zd": "Z"}
_DTYPES = {
    ("f", 2): 0,
    ("f", 4): 2,
    ("f", 8): 3,
    ("b", 1): 4,
    ("B", 1): 5,
    ("b", 2): 6,
    ("B", 2): 7,
    ("b", 4): 8,
    ("B", 4): 9,
    ("b", 8): 10,
    ("B", 8): 11,
    ("?", 1): 12,
    ("Z", 8): 13,
    ("Z", 16): 14,
}
DTYPE_NAMES = {
    "f16": 0,
    "bf16": 1,
    "f32": 2,
    "f64": 3,
    "i8": 4,
    "u8": 5,
    "i16": 6,
    "u16": 7,
    "i32": 8,
    "u32": 9,
    "i64": 10,
    "u64": 11,
    "bool": 12,
    "c64": 13,
    "c128": 14,
}


class _PyBuffer(ctypes.Structure):
    """Py_buffer of Python's stable ABI."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_get.restype = ctypes.c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(_PyBuffer)]
_release.restype = None
_WRITABLE = 0x1


class Typed(NamedTuple):
    """A buffer whose elements are not what it says: bf16 in an array of 16-bit numbers."""

    buffer: Any
    dtype: str


class Buffer:
    """A pinned buffer: its address stays valid until this object goes.

    address, count (elements), dtype (dl_dtype), itemsize (bytes)
    """

    __slots__ = ("address", "count", "dtype", "itemsize", "_view")

    def __init__(self, given: Any, name: str, writes: bool):
        dtype = None
        if isinstance(given, Typed):
            given, wanted = given
            dtype = DTYPE_NAMES.get(wanted) if isinstance(wanted, str) else None
            if dtype is None:
                raise InvalidArgument(
                    f"{name}: '{wanted}' is no dtype; there are {', '.join(DTYPE_NAMES)}",
                    "invalid argument",
                )
        try:
            view = memoryview(given)
        except TypeError:
            raise InvalidArgument(
                f"{name}: {type(given).__name__} has no buffer; give a NumPy array, an "
                "array.array, a bytearray or a memoryview",
                "invalid argument",
            ) from None
        except ValueError as error:  # NumPy's dates
            raise InvalidArgument(f"{name}: {error}", "invalid argument") from None
        if not view.c_contiguous:
            raise InvalidArgument(f"{name}: the buffer is not contiguous", "invalid argument")
        if writes and view.readonly:
            raise InvalidArgument(f"{name}: the buffer cannot be written to", "invalid argument")
        self.itemsize = view.itemsize
        self.dtype = _dtype_of(view, name) if dtype is None else dtype
        if dtype is not None and view.itemsize != _SIZES[dtype]:
            if view.itemsize != 1:  # plain bytes may be anything
                raise InvalidArgument(
                    f"{name}: elements of {view.itemsize} bytes are no {wanted}, "
                    f"which has {_SIZES[dtype]}",
                    "invalid argument",
                )
            if view.nbytes % _SIZES[dtype]:
                raise InvalidArgument(
                    f"{name}: {view.nbytes} bytes are not whole elements of {_SIZES[dtype]} bytes",
                    "invalid argument",
                )
            self.itemsize = _SIZES[dtype]
        self.count = view.nbytes // self.itemsize if self.itemsize else 0
        # The view pins the memory. With a __del__ here the collector would let go of it in a cycle.
        self._view = view
        held = _PyBuffer()
        if _get(view, ctypes.byref(held), _WRITABLE if writes else 0) != 0:
            raise InvalidArgument(f"{name}: the buffer cannot be used", "invalid argument")
        self.address = held.buf
        _release(ctypes.byref(held))


_SIZES = {number: size for (_, size), number in _DTYPES.items()}
_SIZES[1] = 2


def _dtype_of(view: memoryview, name: str) -> int:
    letter = view.format.lstrip("@=<") or "B"
    if letter in ("b", "h", "i", "l", "q", "n"):
        kind = "b"
    elif letter in ("B", "H", "I", "L", "Q", "N"):
        kind = "B"
    else:
        kind = _LETTERS.get(letter, "")
    number = _DTYPES.get((kind, view.itemsize))
    if number is None:
        raise InvalidArgument(
            f"{name}: elements of format '{view.format}' are no dtype of dlrun's; for bf16 give "
            "dlrun.Typed(buffer, 'bf16')",
            "invalid argument",
        )
    return number
