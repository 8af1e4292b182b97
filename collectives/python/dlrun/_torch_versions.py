"""What differs between versions of PyTorch, from 2.4 on: the one place that asks."""

from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Backend, ProcessGroup

# what                              | 2.4                  | 2.8                  | 2.15
# ------------------------------------------------------------------------------------------------
# a backend in Python is a          | ProcessGroup         | ProcessGroup         | Backend
# C++ keeps a Work's Python part    | no                   | yes                  | yes
# options of a backend              | ProcessGroup.Options | Backend.Options      | Backend.Options
# opts.asyncOp                      | in some options      | in all               | in all
# asks for split() and reconfigure  | no                   | no                   | yes
#
# HAS_BACKENDS tells the first row. Without it, _torch_work.hand_out() keeps the Python part of a Work.

# Methods have had other names; some places in PyTorch still ask for the older one.
_OLDER_NAMES = {
    "_allgather_base": "all_gather_single",
    "_reduce_scatter_base": "reduce_scatter_single",
    "alltoall_base": "all_to_all_single",
    "allgather_into_tensor_coalesced": "all_gather_single_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced",
}


def _is_made_in_python(kind: Any) -> bool:
    try:
        kind(0, 1)
    except TypeError:  # "No constructor defined!"
        return False
    return True


HAS_BACKENDS = _is_made_in_python(Backend)  # of Python

CUDA_ADVICE = (
    'use "cpu:dlrun,cuda:nccl"'
    if HAS_BACKENDS
    else 'with this version of PyTorch they need a group of their own: new_group(backend="nccl")'
)


def options_of(timeout: timedelta) -> Any:
    kind: Any = getattr(Backend, "Options", None) or ProcessGroup.Options
    return kind("dlrun", timeout)


class _Group(ProcessGroup):
    """A group that is its own backend.

    PyTorch keeps a group's names and devices with backends in C++, of which this group has none.
    """

    _group_name = _group_desc = ""
    _device_types = property(lambda self: [torch.device("cpu")])
    group_name = property(lambda self: self._group_name)
    group_desc = property(lambda self: self._group_desc)

    def _set_group_name(self, name: str) -> None:
        self._group_name = name

    def _set_group_desc(self, desc: str) -> None:
        self._group_desc = desc

    setGroupName, setGroupDesc = _set_group_name, _set_group_desc

    def getGroupName(self) -> str:
        return self._group_name

    def getGroupDesc(self) -> str:
        return self._group_desc

    def getRank(self) -> int:
        return self.rank()

    def getSize(self) -> int:
        return self.size()

    def _get_backend(self, device: Any) -> Any:
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"backend dlrun: has no backend for {device}; {CUDA_ADVICE}")
        return self

    def _start_coalescing(self, device: Any = None) -> None:
        self.start_coalescing()  # type: ignore[attr-defined]

    def _end_coalescing(self, device: Any = None) -> Any:
        return self.end_coalescing()  # type: ignore[attr-defined]


Base: Any = Backend if HAS_BACKENDS else _Group


def with_older_names(kind: Any) -> Any:
    for older, newer in _OLDER_NAMES.items():
        setattr(kind, older, getattr(kind, newer))
    return kind
