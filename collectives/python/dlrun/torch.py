"""dlrun as a backend of torch.distributed, for tensors of the CPU.

    torch.distributed.init_process_group("dlrun")           # torch 2.14 finds it by its entry point
    import dlrun.torch; init_process_group("dlrun")         # older ones, from 2.4 on
    torch.distributed.init_process_group("cpu:dlrun,cuda:nccl")

docs/guides/pytorch.md tells what it takes and what it lacks.
"""

import ctypes
import os
import secrets
import time
from datetime import timedelta
from typing import Any, Callable, Optional, Sequence

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup

from dlrun import _library, _torch_versions, _torch_work
from dlrun._library import lib
from dlrun._torch_calls import (
    NAMES, back, call_of, check_parts, cut, dense, nothing, one, reduction_of, refuse, splits,
)
from dlrun._torch_memory import Tensors
from dlrun.errors import check
from dlrun.group import _OPS, ANY_SOURCE, Group, begin, begin_list

# Bytes of a tensor that is packed with others: packing costs two copies more, and saves a latency.
_MOST_PACKED = 64 << 10


# ---- a group over torch's store ----------------------------------------------------------------------

_OK, _TIMEOUT, _CONNECTION = 0, 8, 9


def _make(store: dist.Store, rank: int, size: int, name: str, timeout: timedelta,
          job_ranks: Optional[Sequence[int]] = None) -> Group:
    """`job_ranks`: of the group's ranks; None: not known."""
    def set_value(_: Any, key: bytes, value: int, length: int) -> int:
        try:
            store.set(key.decode(), ctypes.string_at(value, length))
        except Exception:
            return _CONNECTION
        return _OK

    def get_value(_: Any, key: bytes, seconds: float, give: Any, to: Any) -> int:
        # A wait with a short timeout makes PyTorch write warnings while another rank is late.
        deadline, pause = time.monotonic() + seconds, 0.001
        try:
            while not store.check([key.decode()]):
                if time.monotonic() >= deadline:
                    return _TIMEOUT
                time.sleep(min(pause, max(deadline - time.monotonic(), 0)))
                pause = min(2 * pause, 0.1)
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
        job_ranks=None if job_ranks is None else (ctypes.c_int * size)(*job_ranks),
    )
    # dlrun gives the ranks a key. Else the secret goes through torch's store.
    has_key = any(os.environ.get(v) for v in ("DLRUN_KEY_FD", "DLRUN_KEY_FILE"))
    comm = ctypes.c_void_p()
    check(lib.dl_comm_make(ctypes.byref(options), ctypes.byref(functions), int(has_key),
                           ctypes.byref(comm)))
    assert comm.value
    return Group(comm.value)


# ---- the backend ----------------------------------------------------------------------------------------


@_torch_versions.with_older_names
class DlrunBackend(_torch_versions.Base):
    """A torch.distributed backend over one group of dlrun's."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta, name: str,
                 is_reconfigurable: bool = False, job_ranks: Optional[Sequence[int]] = None):
        super().__init__(rank, size)
        self._store, self._name = store, name
        self._rank, self._size, self._job_ranks = rank, size, job_ranks
        self._sequence = 0
        self._coalesced: Optional[list[Any]] = None  # works of a coalescing manager
        self._group: Optional[Group] = None
        self._tensors: Optional[Tensors] = None
        self._is_reconfigurable = is_reconfigurable
        self._handle = f"{rank}-{secrets.token_hex(8)}"
        self._uuids: set[int] = set()
        self.set_timeout(timeout)
        if not is_reconfigurable:
            self._group = _make(store, rank, size, name, timeout, job_ranks)
        if dist.get_debug_level() == dist.DebugLevel.DETAIL:
            _wrapped.add(self)

    # What c10d asks of a backend: each of these must be there (torch 2.15).
    supports_splitting = property(lambda self: not self._is_reconfigurable)
    supports_coalescing = property(lambda self: True)
    _supports_time_estimate = property(lambda self: False)
    supports_shrinking = property(lambda self: False)
    supports_reconfigure = property(lambda self: self._is_reconfigurable)
    supports_window = property(lambda self: False)
    options = property(lambda self: self._options)

    def name(self) -> str:
        return "dlrun"

    getBackendName = name

    # A reconfigured group's own.
    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout
        self._options = _torch_versions.options_of(timeout)

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def eager_connect_single_device(self, device: Any) -> None:
        pass  # connected since it was made

    def perform_nocolor_split(self, device: Any) -> None:
        pass  # the others make a group without this rank

    def abort(self) -> None:
        if self._group is not None:
            self._group.abort("torch.distributed aborted the group")

    def shutdown(self) -> None:
        _wrapped.discard(self)
        group, self._group = self._group, None
        if self._tensors is not None:
            self._tensors.close()
            self._tensors = None
        if group is not None:
            group.close()

    # Groups. ----------------------------------------------------------------------------------------

    def split(self, store: dist.Store, ranks: Sequence[int], opts: Any) -> Any:
        if self._rank not in ranks:
            # PyTorch reads through the null pointer that it makes of a None here.
            raise refuse(f"split_group: rank {self._rank} is in no list; give it one of its own")
        name = getattr(opts, "group_name", "") or "split"
        timeout = getattr(opts, "_timeout", None) or self._timeout
        known = self._job_ranks
        return DlrunBackend(_own(store), list(ranks).index(self._rank), len(ranks), timeout, _unique(name),
                            job_ranks=None if known is None else [known[r] for r in ranks])

    def get_reconfigure_handle(self) -> str:
        return self._handle

    def reconfigure(self, opts: Any) -> Any:
        """Makes the group anew, of the processes with these handles."""
        if opts.uuid in self._uuids:
            raise refuse(f"reconfigure: uuid {opts.uuid} is already used; take a new one each time")
        handles = sorted(opts.handles) if isinstance(opts.handles, (set, frozenset)) else list(opts.handles)
        if self._handle not in handles:
            raise refuse("reconfigure: this process's handle is not among the handles")
        self._uuids.add(opts.uuid)
        self.shutdown()
        rank, size = handles.index(self._handle), len(handles)
        timeout = opts.timeout or self._timeout
        self._group = _make(self._store, rank, size, f"{self._name}-{opts.uuid}", timeout)
        self._rank, self._size, self._sequence = rank, size, 0
        return _torch_work.done([])

    # Memory. ----------------------------------------------------------------------------------------

    def supports_tensor_alloc(self, device: Any) -> bool:
        return isinstance(device, int) or device.type == "cpu"

    def allocate_tensor(self, size: int, *, dtype: Any, device: Any) -> Any:
        """A tensor in memory that the ranks share. All ranks ask for the same sizes in the same order."""
        if device.type != "cpu":
            raise refuse(f"allocates CPU tensors, not {device}'s")
        if self._tensors is None:
            self._tensors = Tensors(self._open())
        return self._tensors.empty(size, dtype)

    # Operations. ------------------------------------------------------------------------------------

    def allreduce(self, tensors: Sequence[Any], opts: Any = None) -> Any:
        opts = opts or dist.AllreduceOptions()
        return self._reduction("all_reduce", one(tensors), None, opts)

    def allreduce_coalesced(self, tensors: Sequence[Any], opts: Any = None) -> Any:
        opts = opts or dist.AllreduceOptions()
        return self._several("all_reduce", [(t, None) for t in tensors], opts, opts.reduceOp)

    def allreduce_sparse(self, tensors: Sequence[Any], opts: Any = None) -> Any:
        raise refuse("sparse tensors are not supported; make them dense")

    def reduce(self, tensors: Sequence[Any], opts: Any) -> Any:
        return self._reduction("reduce", one(tensors), None, opts, opts.rootRank)

    def broadcast(self, tensors: Sequence[Any], opts: Any) -> Any:
        tensor = one(tensors)
        data = dense(tensor)
        count = data.numel()
        call = call_of("broadcast", None, data, count, count, count, peer=opts.rootRank)
        return self._start(call, opts, [tensor], back(data, tensor), data)

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        given, taken = dense(input), dense(output)
        call = self._gather_call(given, taken)
        return self._start(call, opts, [output], back(taken, output), given, taken)

    def allgather(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any = None) -> Any:
        given, out = dense(one(inputs)), one(outputs)
        count = given.numel()
        check_parts("all_gather", "output", out, self._size, given, count)
        flat = torch.empty(count * self._size, dtype=given.dtype)
        call = call_of("all_gatherv", given, flat, 0, count, count * self._size,
                       output_counts=[count] * self._size)
        return self._start(call, opts, [out], lambda: cut(flat, out), given, flat)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self._several("all_gather", _pairs("all_gather", inputs, outputs), opts)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        for out in outputs:
            _pairs("all_gather_coalesced", inputs, out)
        for i, given in enumerate(inputs):  # all, before one starts
            parts = [out[i] for out in outputs]
            check_parts("all_gather_coalesced", f"input {i}'s output", parts, self._size, given, given.numel())
        works = [self.allgather([[out[i] for out in outputs]], [t], opts)
                 for i, t in enumerate(inputs)]
        return _torch_work.all_of(works, list(outputs))

    def gather(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        given = dense(one(inputs))
        count, flat, out = given.numel(), None, []
        if self._rank == opts.rootRank:
            out = one(outputs)
            check_parts("gather", "output", out, self._size, given, count)
            flat = torch.empty(count * self._size, dtype=given.dtype)
        call = call_of("gather", given, flat, count, count, count * self._size, peer=opts.rootRank)
        return self._start(call, opts, [out], lambda: cut(flat, out), given, flat)

    def scatter(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        output = one(outputs)
        taken = dense(output)
        count, flat = taken.numel(), None
        if self._rank == opts.rootRank:
            parts = one(inputs)
            check_parts("scatter", "input", parts, self._size, taken, count)
            flat = torch.cat([t.reshape(-1) for t in parts])
        call = call_of("scatter", flat, taken, count, count * self._size, count, peer=opts.rootRank)
        return self._start(call, opts, [output], back(taken, output), flat, taken)

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any) -> Any:
        return self._reduction("reduce_scatter", input, output, opts)

    def reduce_scatter(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        output, parts = one(outputs), one(inputs)
        taken = dense(output)
        count = taken.numel()
        check_parts("reduce_scatter", "input", parts, self._size, taken, count)
        given = torch.cat([t.reshape(-1) for t in parts])
        reduce, factor = reduction_of(opts.reduceOp)
        call = call_of("reduce_scatterv", given, taken, 0, count * self._size, count,
                       input_counts=[count] * self._size, reduce=reduce)
        if factor is not None:
            given.mul_(factor)  # a copy
        return self._start(call, opts, [output], back(taken, output), given, taken)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = opts or dist.ReduceScatterOptions()
        pairs = _pairs("reduce_scatter", inputs, outputs)
        return self._several("reduce_scatter", pairs, opts, opts.reduceOp)

    def all_to_all_single(self, output: Any, input: Any, output_sizes: Any, input_sizes: Any,
                          opts: Any = None) -> Any:
        given, taken = dense(input), dense(output)
        sent = splits("all_to_all", "input", given, input_sizes, self._size)
        got = splits("all_to_all", "output", taken, output_sizes, self._size)
        call = self._exchange_call(given, taken, sent, got)
        return self._start(call, opts, [output], back(taken, output), given, taken)

    def alltoall(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any = None) -> Any:
        for side, parts in (("input", inputs), ("output", outputs)):
            check_parts("all_to_all", side, parts, self._size, next(iter(inputs), None), None)
        given = torch.cat([t.reshape(-1) for t in inputs])
        sent, got = ([t.numel() for t in parts] for parts in (inputs, outputs))
        taken = torch.empty(sum(got), dtype=given.dtype)
        call = self._exchange_call(given, taken, sent, got)
        return self._start(call, opts, list(outputs), lambda: cut(taken, outputs), given, taken)

    def send(self, tensors: Sequence[Any], peer: int, tag: int) -> Any:
        data = dense(one(tensors))
        call = self._message_call("send", data, None, peer, tag)
        return self._start(call, None, list(tensors), nothing, data)

    def recv(self, tensors: Sequence[Any], peer: int, tag: int) -> Any:
        tensor = one(tensors)
        data = dense(tensor)
        call = self._message_call("recv", None, data, peer, tag)
        result = _torch_work.Received(tensors) if peer < 0 else list(tensors)
        return self._start(call, None, result, back(data, tensor), data)

    def recv_anysource(self, tensors: Sequence[Any], tag: int) -> Any:
        return self.recv(tensors, ANY_SOURCE, tag)

    def barrier(self, opts: Any = None) -> Any:
        call = _library.Call(struct_size=ctypes.sizeof(_library.Call), op=_OPS["barrier"])
        return self._start(call, opts, [], nothing)

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
        """Names all missing ranks, on all ranks that have come, whatever `wait_all_ranks` says."""
        if _timeout_of(opts) == timedelta(0):
            raise refuse("monitored_barrier: timeout is 0 s, wanted more")
        self._sequence += 1
        self._open().monitored_barrier(self._seconds(opts))

    # --------------------------------------------------------------------------------------------------

    def start_coalescing(self) -> None:
        self._coalesced = []  # each operation starts at once

    def end_coalescing(self) -> Any:
        works, self._coalesced = self._coalesced or [], None
        return _torch_work.all_of(works, [])

    def _reduction(self, name: str, input: Any, output: Any, opts: Any, root: int = 0) -> Any:
        reduce, factor = reduction_of(opts.reduceOp)
        given = dense(input)
        taken = given if output is None else dense(output)
        target = input if output is None else output
        call = self._reduce_call(name, given, taken, root, reduce)
        return self._start(call, opts, [target], back(taken, target), given, taken, factor=factor)

    def _reduce_call(self, name: str, given: Any, taken: Any, root: int, reduce: int) -> Any:
        count = taken.numel()
        reads = count * self._size if name == "reduce_scatter" else count
        return call_of(name, given, taken, count, reads, count, peer=root, reduce=reduce)

    def _gather_call(self, given: Any, taken: Any) -> Any:
        count = given.numel()
        return call_of("all_gather", given, taken, count, count, count * self._size)

    def _exchange_call(self, given: Any, taken: Any, sent: list[int], got: list[int]) -> Any:
        if sent[self._rank] != got[self._rank]:
            raise refuse(f"all_to_all: the rank has {sent[self._rank]} elements for itself, and takes "
                         f"{got[self._rank]}")
        return call_of("all_to_allv", given, taken, 0, sum(sent), sum(got), input_counts=sent,
                       output_counts=got)

    def _message_call(self, name: str, given: Any, taken: Any, peer: int, tag: int) -> Any:
        if tag < 0:
            raise refuse(f"{name}: tag must be nonnegative, and is {tag}")
        count = (taken if given is None else given).numel()
        return call_of(name, given, taken, count, count, count, peer=peer, tag=tag)

    def _several(self, name: str, pairs: list[Any], opts: Any, op: Any = None) -> Any:
        """Several inputs, each with its output (None: in place). Small ones of a dtype are packed."""
        reduce, factor = (0, None) if op is None else reduction_of(op)
        result = [i if o is None else o for i, o in pairs]
        lists: dict[Any, list[Any]] = {}
        for input, output in pairs:
            given = dense(input)
            taken = given if output is None else dense(output)
            call = (self._gather_call(given, taken) if op is None
                    else self._reduce_call(name, given, taken, 0, reduce))
            is_small = factor is None and given.nbytes + taken.nbytes <= _MOST_PACKED
            lists.setdefault(given.dtype if is_small else len(lists), []).append(
                (call, given, taken, back(taken, input if output is None else output)))
        works = []
        for entries in lists.values():
            calls, kept = [e[0] for e in entries], [e[1:3] for e in entries]

            def last(entries: Any = entries) -> None:
                for entry in entries:
                    entry[3]()

            if len(calls) == 1:
                works.append(self._start(calls[0], opts, result, last, kept, factor=factor))
            else:
                self._sequence += 1
                work = begin_list(self._open()._open(), calls, kept, self._seconds(opts))
                works.append(self._follow(work, opts, result, last))
        return works[0] if len(works) == 1 else _torch_work.all_of(works, result)

    def _open(self) -> Group:
        if self._group is None:
            raise refuse("the group is closed, or was not reconfigured yet")
        return self._group

    def _seconds(self, opts: Any) -> float:
        timeout = _timeout_of(opts) or self._timeout
        if timeout <= timedelta(0):  # not set
            timeout = self._timeout
        return float(timeout.total_seconds())

    def _start(self, call: Any, opts: Any, result: Any, last: Callable[[], None], *kept: Any,
               factor: Any = None) -> Any:
        self._sequence += 1
        if not torch.autograd._profiler_enabled():
            work = begin(self._open()._open(), call, list(kept), self._seconds(opts), factor)
            return self._follow(work, opts, result, last)
        with torch.autograd.profiler.record_function(f"dlrun:{NAMES[call.op]}"):
            work = begin(self._open()._open(), call, list(kept), self._seconds(opts), factor)
            return self._follow(work, opts, result, last)

    def _follow(self, work: Any, opts: Any, result: Any, last: Callable[[], None]) -> Any:
        # A call that torch waits for at once is waited for here: this thread moves the bytes itself.
        if getattr(opts, "asyncOp", True) is False:
            work.wait()
            last()
            return _torch_work.done(result)
        started = _torch_work.started(work, last, result)
        if self._coalesced is not None:
            self._coalesced.append(started)
        return started


def _timeout_of(opts: Any) -> Any:
    return opts if isinstance(opts, timedelta) else getattr(opts, "timeout", None)


def _pairs(name: str, inputs: Any, outputs: Any) -> list[Any]:
    if len(inputs) != len(outputs):
        raise refuse(f"{name}: {len(inputs)} inputs and {len(outputs)} outputs, wanted as many")
    return list(zip(inputs, outputs))


class _Reconfigurable(ProcessGroup):
    """A group whose rank and size change: PyTorch reads those of a backend in Python only once."""

    def __init__(self, backend: DlrunBackend):
        super().__init__(backend.rank(), backend.size())
        self._dlrun = backend
        kind = ProcessGroup.BackendType.CUSTOM
        self._register_backend(torch.device("cpu"), kind, backend)
        self._set_default_backend(kind)

    def rank(self) -> int:
        return self._dlrun.rank()

    def size(self) -> int:
        return self._dlrun.size()

    getRank, getSize = rank, size


# With TORCH_DISTRIBUTED_DEBUG=DETAIL PyTorch wraps a backend, and would lose its Python part.
_wrapped: set[DlrunBackend] = set()
_made: dict[str, int] = {}


def _own(store: dist.Store) -> dist.Store:
    return store.clone() if hasattr(store, "clone") else store  # its timeouts are ours to set


def _unique(name: str) -> str:
    """Every group has its own prefix in torch's store; its n-th backend there is counted here."""
    name = name.replace("/", "_")[-80:]
    _made[name] = _made.get(name, 0) + 1
    return f"torch-{name}-{_made[name]}"


def _job_ranks(given: Any) -> Optional[list[int]]:
    """The ranks of the job that are the group's; None: they are not known."""
    ranks = list(getattr(given, "global_ranks_in_group", None) or range(given.group_size))
    # PyTorch's ranks are the job's only if the default group is the whole job.
    try:
        is_known = int(os.environ["RANK"]) == ranks[given.group_rank] and len(ranks) == given.group_size
    except (KeyError, ValueError, IndexError):
        return None
    return ranks if is_known and max(ranks) < int(os.environ.get("WORLD_SIZE", 0)) else None


def create(given: Any, _options: Any = None) -> Any:
    """Called by torch.distributed for each group."""
    is_reconfigurable = bool(getattr(given, "enable_reconfigure", False))
    backend = DlrunBackend(_own(given.store), given.group_rank, given.group_size, given.timeout,
                           _unique(given.group_id or "default"), is_reconfigurable, _job_ranks(given))
    return _Reconfigurable(backend) if is_reconfigurable else backend


def register() -> None:
    """Makes "dlrun" a backend's name; may be called again."""
    existing = getattr(dist.Backend, "_plugins", {}).get("DLRUN")
    if existing is None:
        dist.Backend.register_backend("dlrun", create, extended_api=True, devices=["cpu"])
    elif existing.creator_fn is not create:
        raise refuse("the name 'dlrun' belongs to another package")


_torch_work.teach_works()
register()
