"""libdl_comm.so, its functions and structures (collectives/c/dl_comm.h)."""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any

_NAME = "libdl_comm.so.1"
_VERSION = 2  # DL_COMM_VERSION
ID_BYTES = 128  # of a dl_unique_id


class CommOptions(ctypes.Structure):
    """dl_comm_options."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("init_method", c_char_p),
        ("backend", c_char_p),
        ("algorithm", c_char_p),
        ("plan", c_char_p),
        ("rank", c_int),
        ("size", c_int),
        ("timeout_s", c_double),
        ("id", c_char_p),
        ("job_ranks", ctypes.POINTER(c_int)),
    ]


SetValue = ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_void_p, c_size_t)
Give = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_size_t)
GetValue = ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_double, Give, c_void_p)


class Store(ctypes.Structure):
    """dl_store."""

    _fields_ = [("context", c_void_p), ("set", SetValue), ("get", GetValue)]


class Call(ctypes.Structure):
    """dl_call."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("op", c_int32),
        ("dtype", c_int32),
        ("reduce", c_int32),
        ("order", c_int32),
        ("input", c_void_p),
        ("output", c_void_p),
        ("count", c_size_t),
        ("input_counts", POINTER(c_size_t)),
        ("output_counts", POINTER(c_size_t)),
        ("peer", c_int32),
        ("tag", c_uint32),
        ("timeout_s", c_double),
        ("release", c_void_p),
        ("context", c_void_p),
        ("input_displacements", POINTER(c_size_t)),
        ("output_displacements", POINTER(c_size_t)),
    ]


# Function: result, arguments.
_COMM = _WORK = _MEMORY = _BYTES = c_void_p
_PREMUL = [c_void_p, c_void_p, c_size_t, c_int32, c_int32, c_double]
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "dl_comm_version": (c_int, []),
    "dl_last_error": (c_char_p, []),
    "dl_last_error_rank": (c_int, []),
    "dl_comm_init_options": (c_int32, [POINTER(CommOptions), POINTER(_COMM)]),
    "dl_unique_id_make": (c_int32, [c_char_p, c_char_p]),
    "dl_comm_make": (c_int32, [POINTER(CommOptions), POINTER(Store), c_int, POINTER(_COMM)]),
    "dl_comm_split": (c_int32, [_COMM, c_int, c_int, POINTER(_COMM)]),
    "dl_comm_split_by_node": (c_int32, [_COMM, POINTER(_COMM)]),
    "dl_comm_reform": (c_int32, [_COMM, c_double, POINTER(_COMM)]),
    "dl_comm_destroy": (None, [_COMM]),
    "dl_comm_rank": (c_int, [_COMM]),
    "dl_comm_size": (c_int, [_COMM]),
    "dl_comm_backend": (c_char_p, [_COMM]),
    "dl_comm_name": (c_char_p, [_COMM]),
    "dl_comm_plan": (c_char_p, [_COMM]),
    "dl_comm_abort": (None, [_COMM, c_char_p]),
    "dl_comm_error": (c_int32, [_COMM]),
    "dl_work_wait_for": (c_int32, [_WORK, c_double]),
    "dl_work_is_completed": (c_int, [_WORK]),
    "dl_work_error": (c_int32, [_WORK]),
    "dl_work_source_of": (c_int, [_WORK, c_size_t]),
    "dl_work_fd": (c_int32, [_WORK, POINTER(c_int)]),
    "dl_wait_any": (c_int32, [POINTER(_WORK), c_size_t, c_double, POINTER(c_size_t)]),
    "dl_work_free": (None, [_WORK]),
    "dl_memory_allocate": (c_int32, [_COMM, c_size_t, POINTER(_MEMORY)]),
    "dl_memory_data": (c_void_p, [_MEMORY]),
    "dl_memory_why_not": (c_char_p, [_MEMORY]),
    "dl_memory_check": (c_int32, [_MEMORY]),
    "dl_memory_free": (None, [_MEMORY]),
    "dl_start": (c_int32, [_COMM, POINTER(Call), POINTER(_WORK)]),
    "dl_start_list": (c_int32, [_COMM, POINTER(Call), c_size_t, POINTER(_WORK)]),
    "dl_premul_all_reduce": (c_int32, [_COMM, *_PREMUL, c_double, POINTER(_WORK)]),
    "dl_premul_reduce": (c_int32, [_COMM, *_PREMUL, c_int, c_double, POINTER(_WORK)]),
    "dl_premul_reduce_scatter": (c_int32, [_COMM, *_PREMUL, c_double, POINTER(_WORK)]),
    "dl_monitored_barrier": (c_int32, [_COMM, c_double]),
    "dl_all_gather_bytes": (c_int32, [_COMM, c_char_p, c_size_t, c_double, POINTER(_BYTES)]),
    "dl_gather_bytes": (c_int32, [_COMM, c_char_p, c_size_t, c_int, c_double, POINTER(_BYTES)]),
    "dl_broadcast_bytes": (c_int32, [_COMM, c_char_p, c_size_t, c_int, c_double, POINTER(_BYTES)]),
    "dl_scatter_bytes": (
        c_int32,
        [_COMM, POINTER(c_char_p), POINTER(c_size_t), c_int, c_double, POINTER(_BYTES)],
    ),
    "dl_bytes_count": (c_size_t, [_BYTES]),
    "dl_bytes_data": (c_void_p, [_BYTES, c_size_t, POINTER(c_size_t)]),
    "dl_bytes_free": (None, [_BYTES]),
    "dl_should_checkpoint": (c_int32, [POINTER(c_int)]),
    "dl_agree": (
        c_int32,
        [c_char_p, c_int, c_double, POINTER(c_int), POINTER(c_int), c_size_t, POINTER(c_size_t)],
    ),
}


def _load() -> ctypes.CDLL:
    given = os.environ.get("DLRUN_LIBRARY")
    # The wheel's own, or one that the system's loader finds.
    own = Path(__file__).parent / "lib" / _NAME
    found = given or (str(own) if own.exists() else _NAME)
    # Who has named the file, and what to do if it is wrong.
    named = f"DLRUN_LIBRARY={given}" if given else found
    wanted = f"wanted the path of dlrun's {_NAME}" if given else "name the file in DLRUN_LIBRARY"
    try:
        library = ctypes.CDLL(found)
    except OSError as error:
        raise ImportError(f"dlrun: {named} cannot be loaded: {error}; {wanted}") from None
    try:
        version = library.dl_comm_version()
    except AttributeError:
        raise ImportError(f"dlrun: {named} is not dlrun's library; {wanted}") from None
    if version < _VERSION:
        raise ImportError(f"dlrun: {named} has version {version} of the interface, wanted {_VERSION} or newer")
    for name, (result, arguments) in _PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"dlrun: {named} is older than this package: it has no {name}()") from None
        function.restype = result
        function.argtypes = arguments
    return library


lib = _load()
