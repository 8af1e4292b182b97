"""dlrun as a backend of torch.distributed, for tensors of the CPU.

    torch.distributed.init_process_group("dlrun")           # torch 2.14 finds it by its entry point
    import dlrun.torch; init_process_group("dlrun")         # older ones
    torch.distributed.init_process_group("cpu:dlrun,cuda:nccl")

docs/guides/pytorch.md tells what it takes and what it lacks.
"""

import ctypes
import os
import queue
import threading
from datetime import timedelta
from typing import Any, Callable, Optional, Sequence

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, _create_work_from_future

from dlrun import _library
from dlrun._buffers import DTYPE_NAMES
from dlrun._library import lib
from dlrun.errors import InvalidArgument, check
from dlrun.group import _OPS, Group, Work, begin

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


def _refuse(text: str) -> InvalidArgument:
    return InvalidArgument(f"backend dlrun: {text}", "invalid argument")


# ---- a group over torch's store ----------------------------------------------------------------------

_OK, _TIMEOUT, _CONNECTION = 0, 8, 9


def _make(store: dist.Store, rank: int, size: int, name: str, timeout: timedelta) -> Group:
    def set_value(_: Any, key: bytes, value: int, length: int) -> int:
        try:
            store.set(key.decode(), ctypes.string_at(value, length))
        except Exception:
            return _CONNECTION
        return _OK

    def get_value(_: Any, key: bytes, seconds: float, give: Any, to: Any) -> int:
        try:
            store.wait([key.decode()], timedelta(seconds=max(seconds, 0.001)))
            value = store.get(key.decode())
        except dist.DistNetworkError:
            return _CONNECTION
        except Exception:
            return _TIMEOUT
        give(to, value, len(value))
        return _OK

    functions = _library.Store(
        None, _library.SetValue(set_value), _library.GetValue(get_value)
    )
    options = _library.CommOptions(
        struct_size=ctypes.sizeof(_library.CommOptions),
        name=name.encode(),
        backend=os.environ.get("DLRUN_BACKEND", "auto").encode(),
        rank=rank,
        size=size,
        timeout_s=timeout.total_seconds(),
    )
    # dlrun gives the ranks a key. Else the secret goes through torch's store.
    has_key = any(os.environ.get(v) for v in ("DLRUN_KEY_FD", "DLRUN_KEY_FILE"))
    comm = ctypes.c_void_p()
    check(lib.dl_comm_make(ctypes.byref(options), ctypes.byref(functions), int(has_key),
                           ctypes.byref(comm)))
    assert comm.value
    return Group(comm.value)


# ---- the end of operations ----------------------------------------------------------------------------


class _Finisher:
    """The thread that waits for asynchronous operations, and completes their futures."""

    def __init__(self) -> None:
        self._queue: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._lock = threading.Lock()

    def add(self, work: Work, last: Callable[[], None], future: Any, result: Any) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="dlrun-torch", daemon=True)
                self._thread.start()
        self._queue.put((work, last, future, result))

    def _run(self) -> None:
        pending: list[Any] = []
        while True:
            if not pending:
                pending.append(self._queue.get())
            while not self._queue.empty():
                pending.append(self._queue.get())
            # Collectives of a group end in order. What ends before others is seen after a millisecond.
            pending[0][0]._wait_briefly(0.001)
            over = [p for p in pending if p[0].is_completed()]
            pending = [p for p in pending if not any(p is o for o in over)]
            for work, last, future, result in over:
                try:
                    work.wait()
                    last()
                    future.set_result(result)
                except Exception as error:
                    future.set_exception(error)
            over = work = last = future = result = None  # type: ignore[assignment]


_finisher = _Finisher()
os.register_at_fork(after_in_child=_finisher.__init__)


def _nothing() -> None:
    pass


# ---- the backend ----------------------------------------------------------------------------------------


class DlrunBackend(Backend):
    """A torch.distributed backend over one group of dlrun's."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta, name: str):
        super().__init__(rank, size)
        self._group = _make(store, rank, size, name, timeout)
        self._timeout = timeout
        self._rank, self._size = rank, size
        self._options = Backend.Options("dlrun", timeout)
        self._sequence = 0
        self._coalesced: Optional[list[Any]] = None  # works of a coalescing manager

    # What c10d asks of a backend: each of these must be there (torch 2.15).
    supports_splitting = property(lambda self: False)
    supports_coalescing = property(lambda self: True)
    _supports_time_estimate = property(lambda self: False)
    supports_shrinking = property(lambda self: False)
    supports_reconfigure = property(lambda self: False)
    supports_window = property(lambda self: False)
    options = property(lambda self: self._options)

    def name(self) -> str:
        return "dlrun"

    getBackendName = name

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    set_timeout = _set_default_timeout

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def abort(self) -> None:
        self._group.abort("torch.distributed aborted the group")

    def shutdown(self) -> None:
        self._group.close()

    # Operations. ------------------------------------------------------------------------------------

    def allreduce(self, tensors: Sequence[Any], opts: Any = None) -> Any:
        opts = opts or dist.AllreduceOptions()
        return self._reduction("all_reduce", _one(tensors), None, opts)

    def allreduce_coalesced(self, tensors: Sequence[Any], opts: Any = None) -> Any:
        return self._several([self.allreduce([t], opts) for t in tensors], list(tensors))

    def reduce(self, tensors: Sequence[Any], opts: Any) -> Any:
        return self._reduction("reduce", _one(tensors), None, opts, opts.rootRank)

    def broadcast(self, tensors: Sequence[Any], opts: Any) -> Any:
        tensor = _one(tensors)
        data = _dense(tensor)
        call = _call("broadcast", data, None, data, data.numel(), peer=opts.rootRank)
        return self._start(call, opts, [tensor], _back(data, tensor), data)

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        given, taken = _dense(input), _dense(output)
        if taken.numel() != given.numel() * self._size:
            raise _refuse("all_gather: output must have size times the elements of input")
        call = _call("all_gather", given, given, taken, given.numel())
        return self._start(call, opts, [output], _back(taken, output), given, taken)

    def allgather(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any = None) -> Any:
        given, out = _dense(_one(inputs)), _one(outputs)
        counts = [t.numel() for t in out]
        flat = torch.empty(sum(counts), dtype=given.dtype)
        call = _call("all_gatherv", given, given, flat, output_counts=counts)
        return self._start(call, opts, [out], lambda: _cut(flat, out), given, flat)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        works = [self.all_gather_single(o, i, opts) for o, i in zip(outputs, inputs)]
        return self._several(works, list(outputs))

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        works = [self.allgather([[out[i] for out in outputs]], [t], opts)
                 for i, t in enumerate(inputs)]
        return self._several(works, list(outputs))

    def gather(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        given = _dense(_one(inputs))
        is_root = self._rank == opts.rootRank
        out = _one(outputs) if is_root else []
        flat = torch.empty(sum(t.numel() for t in out), dtype=given.dtype)
        call = _call("gather", given, given, flat if is_root else None, given.numel(),
                     peer=opts.rootRank)
        return self._start(call, opts, [out], lambda: _cut(flat, out), given, flat)

    def scatter(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        output = _one(outputs)
        taken = _dense(output)
        is_root = self._rank == opts.rootRank
        flat = torch.cat([t.reshape(-1) for t in _one(inputs)]) if is_root else None
        call = _call("scatter", taken, flat, taken, taken.numel(), peer=opts.rootRank)
        return self._start(call, opts, [output], _back(taken, output), flat, taken)

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any) -> Any:
        if input.numel() != output.numel() * self._size:
            raise _refuse("reduce_scatter: input must have size times the elements of output")
        return self._reduction("reduce_scatter", input, output, opts)

    def reduce_scatter(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        output, parts = _one(outputs), _one(inputs)
        given, taken = torch.cat([t.reshape(-1) for t in parts]), _dense(output)
        counts = [t.numel() for t in parts]
        call = _call("reduce_scatterv", given, given, taken, input_counts=counts,
                     reduce=_reduction_of(opts.reduceOp)[0])
        return self._start(call, opts, [output], _back(taken, output), given, taken)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = opts or dist.ReduceScatterOptions()
        works = [self.reduce_scatter_single(o, i, opts) for o, i in zip(outputs, inputs)]
        return self._several(works, list(outputs))

    def all_to_all_single(self, output: Any, input: Any, output_sizes: Any, input_sizes: Any,
                          opts: Any = None) -> Any:
        given, taken = _dense(input), _dense(output)
        row = [t.numel() // t.shape[0] if t.dim() and t.shape[0] else 1 for t in (given, taken)]
        sent = [s * row[0] for s in input_sizes] or [given.numel() // self._size] * self._size
        got = [s * row[1] for s in output_sizes] or [taken.numel() // self._size] * self._size
        if sum(sent) != given.numel() or sum(got) != taken.numel():
            raise _refuse("all_to_all: the split sizes are not those of the tensors")
        call = _call("all_to_allv", given, given, taken, input_counts=sent, output_counts=got)
        return self._start(call, opts, [output], _back(taken, output), given, taken)

    def alltoall(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any = None) -> Any:
        given = torch.cat([t.reshape(-1) for t in inputs])
        taken = torch.empty(sum(t.numel() for t in outputs), dtype=given.dtype)
        call = _call("all_to_allv", given, given, taken,
                     input_counts=[t.numel() for t in inputs],
                     output_counts=[t.numel() for t in outputs])
        return self._start(call, opts, list(outputs), lambda: _cut(taken, outputs), given, taken)

    def send(self, tensors: Sequence[Any], peer: int, tag: int) -> Any:
        data = _dense(_one(tensors))
        call = _call("send", data, data, None, data.numel(), peer=peer, tag=tag)
        return self._start(call, None, list(tensors), _nothing, data)

    def recv(self, tensors: Sequence[Any], peer: int, tag: int) -> Any:
        tensor = _one(tensors)
        data = _dense(tensor)
        call = _call("recv", data, None, data, data.numel(), peer=peer, tag=tag)
        return self._start(call, None, list(tensors), _back(data, tensor), data)

    def recv_anysource(self, tensors: Sequence[Any], tag: int) -> Any:
        return self.recv(tensors, -1, tag)

    def barrier(self, opts: Any = None) -> Any:
        call = _library.Call(struct_size=ctypes.sizeof(_library.Call), op=_OPS["barrier"])
        return self._start(call, opts, [], _nothing)

    # Names that older versions of torch ask for.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # --------------------------------------------------------------------------------------------------

    def start_coalescing(self) -> None:
        self._coalesced = []  # each operation starts at once

    def end_coalescing(self) -> Any:
        works, self._coalesced = self._coalesced or [], None
        return self._several(works, [])

    def _reduction(self, name: str, input: Any, output: Any, opts: Any, root: int = 0) -> Any:
        reduce, factor = _reduction_of(opts.reduceOp)
        given = _dense(input)
        taken = given if output is None else _dense(output)
        target = input if output is None else output
        count = given.numel() if output is None else taken.numel()
        call = _call(name, given, given, taken, count, peer=root, reduce=reduce)
        return self._start(call, opts, [target], _back(taken, target), given, taken, factor=factor)

    def _several(self, works: list[Any], result: list[Any]) -> Any:
        future = torch.futures.collect_all([w.get_future() for w in works])
        return _create_work_from_future(future.then(lambda f: (f.wait(), result)[1]))

    def _start(self, call: Any, opts: Any, result: Any, last: Callable[[], None], *kept: Any,
               factor: Any = None) -> Any:
        self._sequence += 1
        timeout = getattr(opts, "timeout", None) or self._timeout
        if timeout <= timedelta(0):  # not set
            timeout = self._timeout
        work = begin(self._group._open(), call, list(kept), timeout.total_seconds(), factor)
        # A call that torch waits for at once is waited for here: this thread moves the bytes itself.
        if getattr(opts, "asyncOp", True) is False:
            work.wait()
            last()
            return _done(result)
        future: Any = torch.futures.Future()
        _finisher.add(work, last, future, result)
        started = _create_work_from_future(future)
        if self._coalesced is not None:
            self._coalesced.append(started)
        return started


def _done(result: Any) -> Any:
    future: Any = torch.futures.Future()
    future.set_result(result)
    return _create_work_from_future(future)


def _one(tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise _refuse(f"takes one tensor a rank, not {len(tensors)}")
    return tensors[0]


def _dense(tensor: Any) -> Any:
    """The tensor, or a contiguous copy."""
    if tensor.is_sparse:
        raise _refuse("sparse tensors are not supported; make them dense")
    if tensor.device.type != "cpu":
        raise _refuse(f"moves CPU tensors, not {tensor.device}'s; use \"cpu:dlrun,cuda:nccl\"")
    return tensor.contiguous()


def _back(data: Any, tensor: Any) -> Callable[[], None]:
    """What brings the result from a contiguous copy into the tensor."""
    if data.data_ptr() == tensor.data_ptr() and tensor.is_contiguous():
        return _nothing
    return lambda: (tensor.copy_(data), None)[1]


def _cut(flat: Any, parts: Sequence[Any]) -> None:
    at = 0
    for part in parts:
        part.copy_(flat[at : at + part.numel()].view(part.shape))
        at += part.numel()


def _reduction_of(op: Any) -> tuple[int, Optional[float]]:
    """The number of the reduction, and a factor."""
    kind = getattr(op, "op", op)
    name = str(kind).rsplit(".", 1)[-1]
    if name == "PREMUL_SUM":
        factor = op.__getstate__()[1]
        return 0, float(factor)
    if name not in _REDUCTIONS:
        raise _refuse(f"has no reduction {name}")
    return _REDUCTIONS[name], None


def _call(name: str, of: Any, given: Any, taken: Any, count: int = 0, *, peer: int = 0, tag: int = 0,
          reduce: int = 0, input_counts: Any = None, output_counts: Any = None) -> Any:
    dtype = _DTYPES.get(of.dtype)
    if dtype is None:
        raise _refuse(f"has no dtype {of.dtype}")
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


_made: dict[str, int] = {}


def _create(given: Any, _options: Any = None) -> DlrunBackend:
    """Called by torch.distributed for each group."""
    # Every group has its own prefix in torch's store; its n-th backend there is counted here.
    name = (given.group_id or "default").replace("/", "_")[-100:]
    _made[name] = _made.get(name, 0) + 1
    return DlrunBackend(given.store.clone() if hasattr(given.store, "clone") else given.store,
                        given.group_rank, given.group_size, given.timeout,
                        f"torch-{name}-{_made[name]}")


def register() -> None:
    """Makes "dlrun" a backend's name; may be called again."""
    existing = getattr(dist.Backend, "_plugins", {}).get("DLRUN")
    if existing is None:
        dist.Backend.register_backend("dlrun", _create, extended_api=True, devices=["cpu"])
    elif existing.creator_fn is not _create:
        raise _refuse("the name 'dlrun' belongs to another package")


register()
