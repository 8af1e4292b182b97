"""Tensors in symmetric memory, which the ranks of a node share."""

import ctypes
import threading
import warnings
from typing import Optional

import torch

from dlrun.errors import Error
from dlrun.group import Group, Memory

_ALIGNMENT = 64
# The first memory holds three requests of its size, for example FSDP2's gathered parameters, the
# next module's, and the gradients to reduce.
_REQUESTS = 3
_LEAST = 1 << 20


class _Arena:
    """One symmetric memory, from which each rank takes pieces by itself."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.buffer = memory.buffer
        self._lock = threading.Lock()
        self._free: list[tuple[int, int]] = [(0, memory.nbytes)]  # (begin, end), in order

    def take(self, nbytes: int) -> Optional[int]:
        with self._lock:
            for i, (begin, end) in enumerate(self._free):
                if end - begin >= nbytes:
                    rest = [(begin + nbytes, end)] if end - begin > nbytes else []
                    self._free[i : i + 1] = rest
                    return begin
        return None

    def give_back(self, begin: int, nbytes: int) -> None:
        with self._lock:
            merged: list[tuple[int, int]] = []
            for piece in sorted([*self._free, (begin, begin + nbytes)]):
                if merged and merged[-1][1] == piece[0]:
                    merged[-1] = (merged[-1][0], piece[1])
                else:
                    merged.append(piece)
            self._free = merged


class _Piece:
    """Gives its bytes back when the last tensor of them goes."""

    def __init__(self, arena: _Arena, begin: int, nbytes: int):
        self._arena, self._begin, self._nbytes = arena, begin, nbytes

    def __del__(self) -> None:
        self._arena.give_back(self._begin, self._nbytes)


class Tensors:
    """Makes tensors of a group in symmetric memory.

    The ranks ask in the same order for the same sizes, but free at times of their own. So only a
    request that is larger than each earlier one makes new memory, together with the other ranks; a
    rank takes pieces of it alone. Operations take pieces at any offset.
    """

    def __init__(self, group: Group):
        self._group: Optional[Group] = group
        self._arenas: list[_Arena] = []
        self._largest = 0

    def empty(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A tensor in symmetric memory; in ordinary memory while that is full."""
        element = torch.empty(0, dtype=dtype).element_size()
        nbytes = max(-(-count * element // _ALIGNMENT), 1) * _ALIGNMENT
        if nbytes > self._largest and self._group is not None:
            self._largest = max(1 << (nbytes - 1).bit_length(), _LEAST)
            self._grow(_REQUESTS * self._largest)
        for arena in self._arenas:
            begin = arena.take(nbytes)
            if begin is None:
                continue
            buffer = (ctypes.c_ubyte * nbytes).from_buffer(arena.buffer, begin)
            buffer._piece = _Piece(arena, begin, nbytes)
            return torch.frombuffer(buffer, dtype=torch.uint8)[: count * element].view(dtype)
        return torch.empty(count, dtype=dtype)

    def close(self) -> None:
        """Makes no new memory. Tensors stay valid."""
        self._group = None

    def _grow(self, nbytes: int) -> None:
        assert self._group is not None
        try:
            memory = self._group.allocate(nbytes)
        except Error as error:
            if error.kind != "io":
                raise
            # It fails on all ranks alike.
            warnings.warn(f"dlrun: tensors lie in ordinary memory: {error}", stacklevel=3)
            return
        if memory.why_not:
            self._group = None  # the group shares no memory, and says so to all ranks
            return
        self._arenas.insert(0, _Arena(memory))
