"""Groups of ranks and their operations."""

from __future__ import annotations

import atexit
import collections
import ctypes
import operator
import os
import pickle
import sys
import weakref
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, Callable, Generic, Iterable, Optional, Sequence, SupportsIndex, Union

from dlrun import _library
from dlrun._buffers import Buffer
from dlrun._how import IsAsync, checks_keywords, operation
from dlrun._library import lib
from dlrun.errors import InvalidArgument, check

if TYPE_CHECKING:
    from typing import Literal

    from typing_extensions import Unpack

    from dlrun._how import How, typed

    Bytes = Union[bytes, bytearray, memoryview]
    Reduction = Literal["sum", "avg", "min", "max", "prod", "band", "bor", "bxor"]
    Order = Literal["plan", "tree"]

ANY_SOURCE = -1
NO_COLOR = -1

_OPS = {
    "all_reduce": 0,
    "broadcast": 1,
    "all_gather": 2,
    "reduce_scatter": 3,
    "barrier": 4,
    "send": 5,
    "recv": 6,
    "reduce": 7,
    "gather": 8,
    "scatter": 9,
    "all_to_all": 10,
    "all_gatherv": 11,
    "reduce_scatterv": 12,
    "gatherv": 13,
    "scatterv": 14,
    "all_to_allv": 15,
}
_REDUCTIONS = {"sum": 0, "avg": 1, "min": 2, "max": 3, "prod": 4, "band": 5, "bor": 6, "bxor": 7}
# The reductions that take a factor, by their numbers.
_FACTORS = {_OPS[name]: name for name in ("all_reduce", "reduce", "reduce_scatter")}
_ORDERS = {"plan": 0, "tree": 1}

_MOST_RANKS = 1_000_000  # more is a mistake, for which there is no memory

Counts = Iterable[SupportsIndex]


def _refuse(text: str) -> InvalidArgument:
    return InvalidArgument(text, "invalid argument")


_MOST_SHOWN = 60  # characters of a wrong value


def _shown(value: Any) -> str:
    """A wrong value for an error, in one line that is not long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write a very large number
        text = _kind(value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


def _number(names: dict[str, int], name: str, what: str) -> int:
    try:
        return names[name]
    except (KeyError, TypeError):
        raise _refuse(f"there is no {what} {_shown(str(name))}; there are {', '.join(names)}") from None


def _seconds(timeout: Optional[float], none: str = ", or None for the group's") -> float:
    """The library's 0 means the group's timeout. `none`: what None means."""
    if timeout is None:
        return 0.0
    seconds = _real(timeout, "timeout")
    if not seconds > 0:
        raise _refuse(f"timeout is {_shown(timeout)}, wanted more than 0 seconds{none}")
    return seconds


def _real(value: Any, what: str) -> float:
    try:
        if not isinstance(value, (str, bytes, bytearray)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise _refuse(f"{what} is {_shown(value)}, wanted a number")


def _index(value: Any, what: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        shown = repr(value)
        if len(shown) > 40 or "\n" in shown:
            shown = _kind(value)
        raise _refuse(f"{what} is {shown}, wanted a whole number") from None


def _whole(value: Any, what: str, least: int, end: int) -> int:
    """A whole number below `end`; ctypes would cut off a larger one."""
    number = _index(value, what)
    if not least <= number < end:
        raise _refuse(f"{what} is {_shown(number)}, which is out of range")
    return number


def _flag(async_op: Any) -> bool:
    if not isinstance(async_op, bool):
        raise _refuse(f"async_op is {_shown(async_op)}, wanted True or False")
    return async_op


def _how(how: How[IsAsync]) -> tuple[bool, float]:
    """What every operation takes beside its own arguments."""
    return _flag(how.get("async_op", False)), _seconds(how.get("timeout"))


def _list(values: Any, what: str) -> list[Any]:
    try:
        if not isinstance(values, (str, bytes, Mapping, Set)):  # the last two have no order
            return list(values)
    except TypeError:
        pass
    raise _refuse(f"{what} is {_kind(values)}, wanted a list")


def _int32(value: Any, what: str) -> int:
    return _whole(value, what, -(1 << 31), 1 << 31)


def _bytes(data: Any, what: str) -> bytes:
    try:
        return bytes(memoryview(data))
    except (TypeError, ValueError):
        raise _refuse(f"{what} is {_kind(data)}, wanted bytes") from None


class _NotPickled:
    """What a rank sends instead of a value that pickle refuses, so that the others do not wait."""

    def __init__(self, why: str):
        self.why = why


def _pickled(value: Any) -> tuple[bytes, Optional[Exception]]:
    try:
        return pickle.dumps(value), None
    except Exception as error:
        return pickle.dumps(_NotPickled(f"{type(error).__name__}: {error}")), error


def _unpickled(data: bytes, name: str, rank: int) -> Any:
    value = pickle.loads(data)
    if isinstance(value, _NotPickled):
        raise _refuse(f"{name}: rank {rank} of the group cannot pickle its value: {value.why}")
    return value


class _Owner:
    """Owns an object of the library."""

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled")


class Work(_Owner):
    """An operation under way. It keeps the operation's buffers until that is over."""

    def __init__(self, handle: int, kept: Any):
        self._handle: Optional[int] = handle
        self._kept = kept
        _works.add(self)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Blocks until the operation is over, and throws its error. Ctrl-C interrupts it.

        After `timeout` seconds it throws TimeoutError naming the missing ranks, and the operation
        goes on.
        """
        if timeout is not None:
            check(lib.dl_work_wait_for(self._handle, _seconds(timeout)))
            return
        # In slices, between which Python serves signals.
        while lib.dl_work_wait_for(self._handle, 0.2) != 0:
            if lib.dl_work_is_completed(self._handle):
                check(lib.dl_work_wait_for(self._handle, 0.0))
                return

    def _wait_briefly(self, seconds: float) -> None:
        """Waits until the operation is over, or that time has passed. Throws nothing."""
        lib.dl_work_wait_for(self._handle, seconds)

    def is_completed(self) -> bool:
        """True once the operation is over, with or without an error."""
        return bool(lib.dl_work_is_completed(self._handle))

    def source(self, message: int = 0) -> Optional[int]:
        """The rank whose message a receive has taken; of a batch: that of one of its messages."""
        rank = lib.dl_work_source_of(self._handle, _whole(message, "source: message", 0, 1 << 60))
        return rank if rank >= 0 else None

    def fileno(self) -> int:
        """A descriptor that becomes readable once the operation is over, for select and asyncio.

        It belongs to the Work: only poll it.
        """
        fd = ctypes.c_int(-1)
        check(lib.dl_work_fd(self._handle, ctypes.byref(fd)))
        return fd.value

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle is None:
            return
        if lib.dl_work_is_completed(handle):
            lib.dl_work_free(handle)
        else:
            _dropped.append((handle, self._kept))


_works: "weakref.WeakSet[Work]" = weakref.WeakSet()
# Works without a holder, with their buffers, until they are over. The collector may add some at
# any moment, also while this thread sweeps: a deque needs no lock.
_dropped: "collections.deque[tuple[int, Any]]" = collections.deque()


def _sweep() -> None:
    for _ in range(min(len(_dropped), 16)):  # a call drops one
        try:
            handle, kept = _dropped.popleft()
        except IndexError:  # another thread sweeps, too
            return
        if lib.dl_work_is_completed(handle):
            lib.dl_work_free(handle)
        else:
            _dropped.append((handle, kept))


@atexit.register
def _keep_buffers() -> None:
    """Until the process ends, the library may use the buffers of what is under way."""
    for kept in [work._kept for work in _works] + [kept for _, kept in _dropped]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def wait_any(works: Sequence[Optional[Work]], timeout: Optional[float] = None) -> int:
    """Waits until one of the works is over, and returns its place; None in the list is skipped.

    Does not throw the operation's error. Throws TimeoutError if none is over in time.
    """
    works = _list(works, "wait_any: works")
    for i, work in enumerate(works):
        if not (work is None or isinstance(work, Work)):
            raise _refuse(f"wait_any: work {i} is {_shown(work)}, wanted a Work or None")
    handles = (ctypes.c_void_p * len(works))(*(w._handle if w else None for w in works))
    which = ctypes.c_size_t()
    check(lib.dl_wait_any(handles, len(works), _seconds(timeout), ctypes.byref(which)))
    return which.value


class Send:
    """A message of Group.batch()."""

    def __init__(self, buffer: Any, peer: int, tag: int = 0):
        self.buffer, self.peer, self.tag = buffer, peer, tag


class Recv:
    """A message of Group.batch(); `peer` may be ANY_SOURCE."""

    def __init__(self, buffer: Any, peer: int, tag: int = 0):
        self.buffer, self.peer, self.tag = buffer, peer, tag


class Memory(_Owner):
    """Memory that the ranks of a node share; operations are fastest in it.

    `numpy.frombuffer(memory.buffer, dtype)` makes an array of it. why_not: "" if the ranks share
    it, else the reason.
    """

    def __init__(self, handle: int, nbytes: int):
        self._handle = handle
        self.why_not: str = lib.dl_memory_why_not(handle).decode()
        self.nbytes = nbytes

    @property
    def buffer(self) -> Any:
        """The bytes; they live as long as this, or what is made of them."""
        if not self.nbytes:
            return memoryview(bytearray())
        data = lib.dl_memory_data(self._handle)
        buffer = (ctypes.c_ubyte * self.nbytes).from_address(data)
        setattr(buffer, "_owner", self)
        return memoryview(buffer).cast("B")  # ctypes' own format is "<B", which Python cannot index

    def check(self) -> None:
        """Throws Aborted if an operation in it has failed after it had begun."""
        check(lib.dl_memory_check(self._handle))

    def __del__(self) -> None:
        lib.dl_memory_free(self._handle)


class _Handle:
    """A dl_comm: it is destroyed when the last call that uses it has returned."""

    def __init__(self, comm: int):
        self._as_parameter_ = ctypes.c_void_p(comm)

    # At exit the library leaves by itself.
    def __del__(self, _is_exiting: Any = sys.is_finalizing, _destroy: Any = lib.dl_comm_destroy) -> None:
        if not _is_exiting():
            _destroy(self._as_parameter_)


def begin(
    comm: _Handle, call: _library.Call, kept: list[Any], seconds: float, factor: Optional[float]
) -> Work:
    """Starts a call; the Work keeps its buffers. `factor` multiplies this rank's input."""
    _sweep()
    work = ctypes.c_void_p()
    if factor is None:
        call.timeout_s = seconds
        check(lib.dl_start(comm, ctypes.byref(call), ctypes.byref(work)))
    else:
        name = _FACTORS[call.op]
        root = [call.peer] if name == "reduce" else []
        start = getattr(lib, f"dl_premul_{name}")
        what = (call.input, call.output, call.count, call.dtype, call.reduce)
        check(start(comm, *what, factor, *root, seconds, ctypes.byref(work)))
    assert work.value
    return Work(work.value, [call, *kept])


def begin_list(comm: _Handle, calls: list[_library.Call], kept: list[Any], seconds: float) -> Work:
    """Starts a list of calls as one operation."""
    _sweep()
    work = ctypes.c_void_p()
    array = (_library.Call * len(calls))(*calls)
    for call in array:
        call.timeout_s = seconds
    check(lib.dl_start_list(comm, array, len(calls), ctypes.byref(work)))
    assert work.value
    return Work(work.value, [array, *kept])


class _Ranks(_Owner):
    """What a group knows of itself."""

    def __init__(self, handle: int):
        self._handle: Optional[_Handle] = _Handle(handle)
        self.rank: int = lib.dl_comm_rank(handle)
        self.size: int = lib.dl_comm_size(handle)
        self.backend: str = lib.dl_comm_backend(handle).decode()
        self.name: str = lib.dl_comm_name(handle).decode()
        self.plan: str = lib.dl_comm_plan(handle).decode()

    def _root(self, root: Any, name: str) -> int:
        rank = _index(root, f"{name}: root")
        if not 0 <= rank < self.size:
            raise _refuse(f"{name}: root is {rank}, and the group has ranks 0 to {self.size - 1}")
        return rank

    def _open(self) -> _Handle:
        if self._handle is None:
            raise _refuse("the group is closed")
        return self._handle


class _Operations(_Ranks, Generic[IsAsync]):
    """The operations of a Group. The type of `async_op` is the class's, for type checkers: see _Typed."""

    # Collectives. ---------------------------------------------------------------------------------

    @operation
    def all_reduce(
        self,
        input: Any,
        output: Any = None,
        op: Reduction = "sum",
        *,
        order: Order = "plan",
        factor: Optional[float] = None,
        **how: Unpack[How[IsAsync]],
    ) -> Optional[Work]:
        """Reduces the ranks' inputs; in place without `output`. `factor` multiplies this rank's."""
        return self._reduction("all_reduce", input, output, op, order, factor, how)

    @operation
    def reduce(
        self,
        input: Any,
        output: Any = None,
        op: Reduction = "sum",
        *,
        root: SupportsIndex = 0,
        order: Order = "plan",
        factor: Optional[float] = None,
        **how: Unpack[How[IsAsync]],
    ) -> Optional[Work]:
        """Reduces to `output` on the root; in place without it."""
        return self._reduction("reduce", input, output, op, order, factor, how, root=root)

    @operation
    def reduce_scatter(
        self,
        input: Any,
        output: Any,
        op: Reduction = "sum",
        *,
        order: Order = "plan",
        factor: Optional[float] = None,
        **how: Unpack[How[IsAsync]],
    ) -> Optional[Work]:
        """Each rank gets its part of the reduced input."""
        return self._reduction("reduce_scatter", input, output, op, order, factor, how)

    @operation
    def broadcast(self, buffer: Any, root: SupportsIndex = 0, **how: Unpack[How[IsAsync]]) -> Optional[Work]:
        """The root's buffer, on every rank."""
        root = self._root(root, "broadcast")
        data = Buffer(buffer, "broadcast: buffer", self.rank != root)
        call = self._call("broadcast", None, data, data.count, peer=root)
        return self._start(call, [data], how)

    @operation
    def all_gather(self, input: Any, output: Any, **how: Unpack[How[IsAsync]]) -> Optional[Work]:
        """Every rank's input, in rank order, on every rank."""
        given, taken = self._two("all_gather", input, output)
        return self._start(
            self._call("all_gather", given, taken, given.count), [given, taken], how
        )

    @operation
    def gather(self, input: Any, output: Any = None, *, root: SupportsIndex = 0, **how: Unpack[How[IsAsync]]) -> Optional[Work]:
        """Every rank's input, in rank order, on the root."""
        root = self._root(root, "gather")
        given, taken = self._two("gather", input, output, writes=self.rank == root)
        call = self._call("gather", given, taken, given.count, peer=root)
        return self._start(call, [given, taken], how)

    @operation
    def scatter(self, input: Any, output: Any, *, root: SupportsIndex = 0, **how: Unpack[How[IsAsync]]) -> Optional[Work]:
        """The root's input, divided among the ranks; other ranks' `input` may be None."""
        root = self._root(root, "scatter")
        given, taken = self._two("scatter", input, output, reads=self.rank == root)
        call = self._call("scatter", given, taken, taken.count, peer=root)
        return self._start(call, [given, taken], how)

    @operation
    def all_to_all(self, input: Any, output: Any, **how: Unpack[How[IsAsync]]) -> Optional[Work]:
        """Part i of the input goes to rank i; part i of the output comes from rank i."""
        given, taken = self._two("all_to_all", input, output)
        if given.count % self.size:
            raise _refuse(f"all_to_all: {given.count} elements for {self.size} ranks")
        call = self._call("all_to_all", given, taken, given.count // self.size)
        return self._start(call, [given, taken], how)

    @operation
    def all_gatherv(self, input: Any, output: Any, counts: Counts, **how: Unpack[How[IsAsync]]) -> Optional[Work]:
        """all_gather() of counts[r] elements from rank r."""
        given, taken = self._two("all_gatherv", input, output)
        call = self._call("all_gatherv", given, taken, output_counts=counts)
        return self._start(call, [given, taken], how)

    @operation
    def reduce_scatterv(
        self, input: Any, output: Any, counts: Counts, op: Reduction = "sum", **how: Unpack[How[IsAsync]]
    ) -> Optional[Work]:
        """reduce_scatter() in which rank r gets counts[r] elements."""
        given, taken = self._two("reduce_scatterv", input, output)
        call = self._call("reduce_scatterv", given, taken, input_counts=counts, op=op)
        return self._start(call, [given, taken], how)

    @operation
    def gatherv(
        self,
        input: Any,
        output: Any = None,
        counts: Optional[Counts] = None,
        *,
        root: SupportsIndex = 0,
        **how: Unpack[How[IsAsync]],
    ) -> Optional[Work]:
        """gather() of counts[r] elements from rank r; output and counts on the root."""
        root = self._root(root, "gatherv")
        is_root = self.rank == root
        given, taken = self._two("gatherv", input, output, writes=is_root)
        call = self._call(
            "gatherv", given, taken, given.count, peer=root, output_counts=counts if is_root else None
        )
        return self._start(call, [given, taken], how)

    @operation
    def scatterv(
        self,
        input: Any,
        output: Any,
        counts: Optional[Counts] = None,
        *,
        root: SupportsIndex = 0,
        **how: Unpack[How[IsAsync]],
    ) -> Optional[Work]:
        """scatter() in which rank r gets counts[r] elements; input and counts on the root."""
        root = self._root(root, "scatterv")
        is_root = self.rank == root
        given, taken = self._two("scatterv", input, output, reads=is_root)
        call = self._call(
            "scatterv", given, taken, taken.count, peer=root, input_counts=counts if is_root else None
        )
        return self._start(call, [given, taken], how)

    @operation
    def all_to_allv(
        self, input: Any, output: Any, send_counts: Counts, receive_counts: Counts, **how: Unpack[How[IsAsync]]
    ) -> Optional[Work]:
        """all_to_all() of send_counts[r] elements to, and receive_counts[r] from rank r."""
        given, taken = self._two("all_to_allv", input, output)
        call = self._call(
            "all_to_allv", given, taken, input_counts=send_counts, output_counts=receive_counts
        )
        return self._start(call, [given, taken], how)

    @operation
    def barrier(self, **how: Unpack[How[IsAsync]]) -> Optional[Work]:
        """Returns when all ranks have called it."""
        return self._start(self._call("barrier", None, None), [], how)

    @operation
    def all_reduce_list(
        self, buffers: Iterable[Any], op: Reduction = "sum", *, order: Order = "plan", **how: Unpack[How[IsAsync]]
    ) -> Optional[Work]:
        """all_reduce() of many small buffers of one dtype as one operation, in place."""
        buffers = _list(buffers, "all_reduce_list: buffers")
        data = [Buffer(b, f"all_reduce_list: buffer {i}", True) for i, b in enumerate(buffers)]
        calls = [self._call("all_reduce", b, b, b.count, op=op, order=order) for b in data]
        return self._start_list(calls, data, how)

    # Messages. ------------------------------------------------------------------------------------

    @operation
    def send(self, buffer: Any, peer: int, tag: int = 0, **how: Unpack[How[IsAsync]]) -> Optional[Work]:
        """Sends a message. Messages of one pair of ranks and one tag arrive in order."""
        data = Buffer(buffer, "send: buffer", False)
        call = self._call("send", data, None, data.count, peer=peer, tag=tag)
        return self._start(call, [data], how)

    @operation
    def recv(
        self, buffer: Any, peer: int = ANY_SOURCE, tag: int = 0, **how: Unpack[How[IsAsync]]
    ) -> Union[Work, Optional[int]]:
        """Receives a message of as many elements, and returns the rank that sent it."""
        data = Buffer(buffer, "recv: buffer", True)
        call = self._call("recv", None, data, data.count, peer=peer, tag=tag)
        is_async, seconds = _how(how)
        work = begin(self._open(), call, [data], seconds, None)
        if is_async:
            return work
        work.wait()
        return work.source()

    @operation
    def batch(self, messages: Iterable[Union[Send, Recv]], **how: Unpack[How[IsAsync]]) -> Optional[Work]:
        """Starts all messages at once; none waits for another."""
        calls, data = [], []
        for i, message in enumerate(_list(messages, "batch: messages")):
            if not isinstance(message, (Send, Recv)):
                raise _refuse(f"batch: message {i} is {_shown(message)}, wanted a dlrun.Send or dlrun.Recv")
            is_send = isinstance(message, Send)
            name = "send" if is_send else "recv"
            buffer = Buffer(message.buffer, f"{name}: buffer", not is_send)
            data.append(buffer)
            given, taken = (buffer, None) if is_send else (None, buffer)
            calls.append(
                self._call(name, given, taken, buffer.count, peer=message.peer, tag=message.tag)
            )
        return self._start_list(calls, data, how)

    # ------------------------------------------------------------------------------------------------

    def _two(
        self, name: str, input: Any, output: Any, reads: bool = True, writes: bool = True
    ) -> tuple[Any, Any]:
        given = Buffer(input, f"{name}: input", False) if reads else None
        taken = Buffer(output, f"{name}: output", True) if writes else None
        if given and taken and given.dtype != taken.dtype:
            raise _refuse(f"{name}: input and output have different dtypes")
        return given, taken

    def _call(
        self,
        name: str,
        given: Optional[Buffer],
        taken: Optional[Buffer],
        count: int = 0,
        *,
        peer: int = 0,
        tag: int = 0,
        op: Reduction = "sum",
        order: Order = "plan",
        input_counts: Optional[Counts] = None,
        output_counts: Optional[Counts] = None,
    ) -> _library.Call:
        known = given or taken
        peer = _int32(peer, f"{name}: peer")
        tag = _index(tag, f"{name}: tag")
        if not 0 <= tag < 1 << 32:
            raise _refuse(f"{name}: tag is {_shown(tag)}, wanted 0 to {(1 << 32) - 1}")
        call = _library.Call(
            struct_size=ctypes.sizeof(_library.Call),
            op=_OPS[name],
            dtype=known.dtype if known else 0,
            reduce=_number(_REDUCTIONS, op, "reduction"),
            order=_number(_ORDERS, order, "order"),
            input=given.address if given else None,
            output=taken.address if taken else None,
            count=count,
            peer=peer,
            tag=tag,
        )
        self._check_room(name, given, taken, call, input_counts, output_counts)
        return call

    def _check_room(
        self,
        name: str,
        given: Optional[Buffer],
        taken: Optional[Buffer],
        call: _library.Call,
        input_counts: Optional[Counts],
        output_counts: Optional[Counts],
    ) -> None:
        """The library trusts a C program's counts; Python's buffers know their own."""
        for side, counts, buffer in (
            ("input", input_counts, given),
            ("output", output_counts, taken),
        ):
            if counts is None:
                continue
            numbers = [_whole(c, f"{name}: a count", 0, 1 << 60) for c in _list(counts, f"{name}: counts")]
            if len(numbers) != self.size:
                raise _refuse(f"{name}: wanted a count, 0 or more, for each of {self.size} ranks")
            if buffer is None or sum(numbers) > buffer.count:
                held = buffer.count if buffer else 0
                raise _refuse(f"{name}: {side} has {held} elements, its counts add to {sum(numbers)}")
            setattr(call, f"{side}_counts", (ctypes.c_size_t * self.size)(*numbers))
        is_root = self.rank == call.peer
        each = call.count * self.size
        # Elements of input and output; None: any number.
        exact: dict[str, tuple[Optional[int], Optional[int]]] = {
            "all_reduce": (call.count, call.count),
            "reduce": (call.count, call.count if is_root else None),
            "all_gather": (call.count, each),
            "reduce_scatter": (each, call.count),
            "gather": (call.count, each if is_root else None),
            "scatter": (each if is_root else None, call.count),
            "all_to_all": (each, each),
            "all_gatherv": (call.output_counts[self.rank] if call.output_counts else None, None),
            "reduce_scatterv": (None, call.input_counts[self.rank] if call.input_counts else None),
        }
        for side, wanted, buffer in zip(("input", "output"), exact.get(name, (None, None)), (given, taken)):
            held = buffer.count if buffer else 0
            if wanted is not None and held != wanted:
                raise _refuse(f"{name}: {side} has {held} elements, wanted {wanted}")

    def _reduction(
        self,
        name: str,
        input: Any,
        output: Any,
        op: Reduction,
        order: Order,
        factor: Optional[float],
        how: How[IsAsync],
        root: SupportsIndex = 0,
    ) -> Optional[Work]:
        root = self._root(root, name)
        is_in_place = output is None and name != "reduce_scatter"
        writes = is_in_place and (name != "reduce" or self.rank == root)
        given = Buffer(input, f"{name}: input", writes)
        taken = given if is_in_place else Buffer(output, f"{name}: output", True)
        if given.dtype != taken.dtype:
            raise _refuse(f"{name}: input and output have different dtypes")
        count = taken.count if name == "reduce_scatter" else given.count
        call = self._call(name, given, taken, count, peer=root, op=op, order=order)
        factor = None if factor is None else _real(factor, f"{name}: factor")
        return self._start(call, [given, taken], how, factor)

    def _start(
        self,
        call: _library.Call,
        kept: list[Any],
        how: How[IsAsync],
        factor: Optional[float] = None,
    ) -> Optional[Work]:
        is_async, seconds = _how(how)
        return self._result(begin(self._open(), call, kept, seconds, factor), is_async)

    def _start_list(
        self, calls: list[_library.Call], kept: list[Any], how: How[IsAsync]
    ) -> Optional[Work]:
        is_async, seconds = _how(how)
        return self._result(begin_list(self._open(), calls, kept, seconds), is_async)

    def _result(self, work: Work, async_op: bool) -> Optional[Work]:
        if async_op:
            return work
        work.wait()
        return None


if TYPE_CHECKING:
    _waits = _Operations[Literal[False]](0)
    _starts = _Operations[Literal[True]](0)
    _either = _Operations[bool](0)

    class _Typed(_Ranks):
        """The operations, which return a Work with `async_op=True`, and else their result."""

        all_reduce = typed(_waits.all_reduce, _starts.all_reduce, _either.all_reduce)
        reduce = typed(_waits.reduce, _starts.reduce, _either.reduce)
        reduce_scatter = typed(_waits.reduce_scatter, _starts.reduce_scatter, _either.reduce_scatter)
        broadcast = typed(_waits.broadcast, _starts.broadcast, _either.broadcast)
        all_gather = typed(_waits.all_gather, _starts.all_gather, _either.all_gather)
        gather = typed(_waits.gather, _starts.gather, _either.gather)
        scatter = typed(_waits.scatter, _starts.scatter, _either.scatter)
        all_to_all = typed(_waits.all_to_all, _starts.all_to_all, _either.all_to_all)
        all_gatherv = typed(_waits.all_gatherv, _starts.all_gatherv, _either.all_gatherv)
        reduce_scatterv = typed(_waits.reduce_scatterv, _starts.reduce_scatterv, _either.reduce_scatterv)
        gatherv = typed(_waits.gatherv, _starts.gatherv, _either.gatherv)
        scatterv = typed(_waits.scatterv, _starts.scatterv, _either.scatterv)
        all_to_allv = typed(_waits.all_to_allv, _starts.all_to_allv, _either.all_to_allv)
        barrier = typed(_waits.barrier, _starts.barrier, _either.barrier)
        all_reduce_list = typed(_waits.all_reduce_list, _starts.all_reduce_list, _either.all_reduce_list)
        send = typed(_waits.send, _starts.send, _either.send)
        recv = typed(_waits.recv, _starts.recv, _either.recv)
        batch = typed(_waits.batch, _starts.batch, _either.batch)

else:
    _Typed = _Operations


class Group(_Typed):
    """A group of ranks. Every rank makes the same calls in the same order.

    Buffers are NumPy arrays, array.array, bytearray or anything else with the buffer protocol;
    Typed(buffer, "bf16") names the dtype of others. Where ranks have parts of equal size, all of
    one buffer counts, so `output` of all_gather has size times the elements of `input`.

    Every operation takes `async_op=True`, and then returns a Work instead of waiting, and
    `timeout`, its deadline in seconds. A thread that waits lets other threads of Python run.

    Errors (dlrun.errors) name the operation, the rank and the cause. After one, the group is broken:
    later calls throw the first cause.
    """

    def __repr__(self) -> str:
        return f"<dlrun.Group '{self.name}': rank {self.rank} of {self.size} over {self.backend}>"

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the group. Operations under way end with Aborted."""
        self._handle = None
        _sweep()

    # Groups. --------------------------------------------------------------------------------------

    def split(self, color: int, key: int = 0) -> Optional["Group"]:
        """Collective: ranks with the same color form a group, ordered by key. NO_COLOR: none."""
        part = ctypes.c_void_p()
        color, key = _int32(color, "split: color"), _int32(key, "split: key")
        if color < 0 and color != NO_COLOR:
            raise _refuse(f"split: color is {color}, wanted 0 or more, or NO_COLOR")
        check(lib.dl_comm_split(self._open(), color, key, ctypes.byref(part)))
        return Group(part.value) if part.value else None

    def split_by_node(self) -> "Group":
        """Collective: one group for the ranks of each node, in this group's order."""
        part = ctypes.c_void_p()
        check(lib.dl_comm_split_by_node(self._open(), ctypes.byref(part)))
        assert part.value
        return Group(part.value)

    def reform(self, timeout: Optional[float] = None) -> "Group":
        """Collective over the ranks that are left after others have died: a new group of them.

        They keep their order and are numbered from 0. This group is closed. Throws TimeoutError
        naming a rank that lives and has not called it within `timeout` seconds (None: the group's);
        it may be called again then.
        """
        made = ctypes.c_void_p()
        check(lib.dl_comm_reform(self._open(), _seconds(timeout), ctypes.byref(made)))
        assert made.value
        self.close()
        return Group(made.value)

    def abort(self, reason: str) -> None:
        """Breaks the group: operations under way throw Aborted with this reason on every rank."""
        lib.dl_comm_abort(self._open(), _encoded(reason, "abort: reason"))

    def check(self) -> None:
        """Throws the first cause if the group is broken."""
        check(lib.dl_comm_error(self._open()))

    def allocate(self, nbytes: int) -> Memory:
        """Collective: memory of the same size on every rank, filled with zeros."""
        nbytes = _index(nbytes, "allocate: nbytes")
        if not 0 <= nbytes < 1 << 60:
            raise _refuse(f"allocate: {_shown(nbytes)} bytes are more than memory can hold, or less than 0")
        memory = ctypes.c_void_p()
        check(lib.dl_memory_allocate(self._open(), nbytes, ctypes.byref(memory)))
        assert memory.value
        return Memory(memory.value, nbytes)

    def monitored_barrier(self, timeout: float) -> None:
        """A barrier whose TimeoutError names each missing rank, on all ranks that have come."""
        if timeout is None:
            raise _refuse("monitored_barrier: timeout is None, wanted more than 0 seconds")
        check(lib.dl_monitored_barrier(self._open(), _seconds(timeout, none="")))

    # Byte strings and objects. They block. ----------------------------------------------------------

    def all_gather_bytes(self, data: Bytes, timeout: Optional[float] = None) -> list[bytes]:
        """Every rank's bytes, by rank."""
        data = _bytes(data, "all_gather_bytes: data")
        found = ctypes.c_void_p()
        check(
            lib.dl_all_gather_bytes(
                self._open(), data, len(data), _seconds(timeout), ctypes.byref(found)
            )
        )
        return _taken(found)

    def gather_bytes(
        self, data: Bytes, root: SupportsIndex = 0, timeout: Optional[float] = None
    ) -> Optional[list[bytes]]:
        """Every rank's bytes, by rank, on the root; None elsewhere."""
        data, root = _bytes(data, "gather_bytes: data"), self._root(root, "gather_bytes")
        found = ctypes.c_void_p()
        check(
            lib.dl_gather_bytes(
                self._open(), data, len(data), root, _seconds(timeout), ctypes.byref(found)
            )
        )
        strings = _taken(found)
        return strings if self.rank == root else None

    def broadcast_bytes(
        self, data: Optional[Bytes], root: SupportsIndex = 0, timeout: Optional[float] = None
    ) -> bytes:
        """The root's bytes; other ranks' `data` may be None."""
        root = self._root(root, "broadcast_bytes")
        if self.rank == root and data is None:
            raise _refuse("broadcast_bytes: the root's data is None")
        data = b"" if data is None else _bytes(data, "broadcast_bytes: data")
        found = ctypes.c_void_p()
        check(
            lib.dl_broadcast_bytes(
                self._open(), data, len(data), root, _seconds(timeout), ctypes.byref(found)
            )
        )
        return _taken(found)[0]

    def scatter_bytes(
        self,
        parts: Optional[Sequence[Bytes]],
        root: SupportsIndex = 0,
        timeout: Optional[float] = None,
    ) -> bytes:
        """parts[rank] of the root; other ranks' `parts` may be None."""
        root = self._root(root, "scatter_bytes")
        pointers = sizes = None
        if self.rank == root:
            given = [] if parts is None else _list(parts, "scatter_bytes: parts")
            if len(given) != self.size:
                raise _refuse(f"scatter_bytes: the root gives one part for each of {self.size} ranks")
            strings = [_bytes(p, "scatter_bytes: a part") for p in given]
            pointers = (ctypes.c_char_p * self.size)(*strings)
            sizes = (ctypes.c_size_t * self.size)(*(len(s) for s in strings))
        found = ctypes.c_void_p()
        check(
            lib.dl_scatter_bytes(
                self._open(), pointers, sizes, root, _seconds(timeout), ctypes.byref(found)
            )
        )
        return _taken(found)[0]

    def all_gather_object(self, value: Any, timeout: Optional[float] = None) -> list[Any]:
        """Every rank's object, by rank, by pickle: for ranks that trust each other."""
        data, error = _pickled(value)
        strings = self.all_gather_bytes(data, timeout)
        if error is not None:
            raise error
        return [_unpickled(b, "all_gather_object", r) for r, b in enumerate(strings)]

    def broadcast_object(self, value: Any, root: SupportsIndex = 0, timeout: Optional[float] = None) -> Any:
        """The root's object, by pickle: for ranks that trust each other."""
        root = self._root(root, "broadcast_object")
        data, error = _pickled(value) if self.rank == root else (None, None)
        string = self.broadcast_bytes(data, root, timeout)
        if error is not None:
            raise error
        return _unpickled(string, "broadcast_object", root)


def _taken(found: ctypes.c_void_p) -> list[bytes]:
    """The strings of a dl_bytes, which is freed."""
    try:
        size = ctypes.c_size_t()
        strings = []
        for i in range(lib.dl_bytes_count(found)):
            data = lib.dl_bytes_data(found, i, ctypes.byref(size))
            strings.append(ctypes.string_at(data, size.value) if size.value else b"")
        return strings
    finally:
        lib.dl_bytes_free(found)


def _no_world() -> Optional[_Handle]:
    return None


# The handle of init()'s group, until it is destroyed.
_world: Callable[[], Optional[_Handle]] = _no_world


def _after_fork() -> None:
    global _world
    _world = _no_world  # the library says what a child may do


os.register_at_fork(after_in_child=_after_fork)


@checks_keywords
def init(
    backend: Optional[str] = None,
    init_method: Optional[str] = None,
    rank: Optional[int] = None,
    size: Optional[int] = None,
    timeout: Optional[float] = None,
    *,
    name: Optional[str] = None,
    algorithm: Optional[str] = None,
    plan: Optional[str] = None,
) -> Group:
    """Makes this process a rank of its job; returns when all ranks have come.

    Under dlrun, mpirun or srun it needs no arguments; alone it is a world of one. `timeout`: the
    deadline of an operation, and of this call, in seconds. See docs/guides/python.md.
    """
    options = _options(
        -1 if rank is None else _least(rank, "init: rank", 0, ", or None"),
        -1 if size is None else _size(size, "init: size", ", or None"),
        timeout,
        name=name,
        init_method=init_method,
        backend=backend,
        algorithm=algorithm,
        plan=plan,
    )
    global _world
    if _world() is not None:
        raise _refuse("init: the group of an earlier init() is open; close() it first")
    world = ctypes.c_void_p()
    check(lib.dl_comm_init_options(ctypes.byref(options), ctypes.byref(world)))
    assert world.value
    group = Group(world.value)
    assert group._handle
    _world = weakref.ref(group._handle)
    return group


def unique_id(iface: Optional[str] = None) -> bytes:
    """128 bytes by which the ranks of a new group find rank 0, for make_group().

    The process that will be rank 0 calls it, once for each group, and passes the bytes on to the
    others. They hold a secret: what knows them can join the group.
    """
    made = ctypes.create_string_buffer(_library.ID_BYTES)
    check(lib.dl_unique_id_make(None if iface is None else _encoded(iface, "iface"), made))
    return made.raw


@checks_keywords
def make_group(
    rank: int,
    size: int,
    *,
    id: bytes,
    name: str = "group",
    backend: Optional[str] = None,
    algorithm: Optional[str] = None,
    plan: Optional[str] = None,
    timeout: Optional[float] = None,
    job_ranks: Optional[Iterable[SupportsIndex]] = None,
) -> Group:
    """A group of `size` processes, numbered by the caller; returns when all have come.

    id: of unique_id() on rank 0. The name is the same on all ranks. It is independent of init(), and
    a process may be in any number of such groups. timeout: of an operation, and of this call, in
    seconds; None: 600. job_ranks: the RANK of each rank of the group, by which errors name it, and by
    which dlrun notices that it has ended; None: not known, unless the group is the whole job.
    """
    id = _bytes(id, "make_group: id")
    if len(id) != _library.ID_BYTES:
        raise _refuse(f"make_group: id has {len(id)} bytes, wanted the {_library.ID_BYTES} of unique_id()")
    size = _size(size, "make_group: size")
    rank = _least(rank, "make_group: rank", 0)
    if rank >= size:
        raise _refuse(f"make_group: rank is {_shown(rank)}, wanted 0 to {size - 1}, as size is {size}")
    options = _options(rank, size, timeout, name=name, backend=backend, algorithm=algorithm, plan=plan)
    options.id = id
    if job_ranks is not None:
        numbers = [_least(r, "make_group: a number of job_ranks", 0)
                   for r in _list(job_ranks, "make_group: job_ranks")]
        if len(numbers) != size:
            raise _refuse(f"make_group: job_ranks has {len(numbers)} elements, wanted one for each of {size} ranks")
        options.job_ranks = (ctypes.c_int * size)(*numbers)
    comm = ctypes.c_void_p()
    check(lib.dl_comm_make(ctypes.byref(options), None, 0, ctypes.byref(comm)))
    assert comm.value
    return Group(comm.value)


def _options(rank: int, size: int, timeout: Optional[float], **texts: Optional[str]) -> Any:
    return _library.CommOptions(
        struct_size=ctypes.sizeof(_library.CommOptions),
        rank=rank,
        size=size,
        timeout_s=_seconds(timeout, none=", or None"),
        **{name: None if text is None else _encoded(text, name) for name, text in texts.items()},
    )


def _least(value: Any, what: str, least: int, none: str = "") -> int:
    number = _int32(value, what)
    if number < least:
        raise _refuse(f"{what} is {number}, wanted {least} or more{none}")
    return number


def _size(value: Any, what: str, none: str = "") -> int:
    number = _least(value, what, 1, none)
    if number > _MOST_RANKS:
        raise _refuse(f"{what} is {number}, wanted at most {_MOST_RANKS} ranks")
    return number


def _encoded(text: Any, what: str) -> bytes:
    if not isinstance(text, str) or "\0" in text:
        raise _refuse(f"{what} is {_shown(text)}, wanted a text without NUL")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _refuse(f"{what} is {_shown(text)}, which cannot be written in UTF-8") from None


def agree(name: str, flag: bool, patience: float) -> tuple[bool, list[int]]:
    """Lets all ranks of the job agree on a flag, even with ranks gone.

    Returns "and" over the flags of the ranks that came in time, and the other ranks. A name is used
    once. Needs the group of init().
    """
    if flag not in (True, False):
        raise _refuse(f"agree: flag is {_shown(flag)}, wanted True or False")
    patience = _real(patience, "agree: patience")
    if not patience >= 0:
        raise _refuse(f"agree: patience is {patience}, wanted 0 or more seconds")
    agreed, missing = ctypes.c_int(), ctypes.c_size_t()
    room = 1 << 16
    ranks = (ctypes.c_int * room)()
    check(
        lib.dl_agree(
            _encoded(name, "agree: name"), bool(flag), patience, ctypes.byref(agreed), ranks, room, ctypes.byref(missing)
        )
    )
    return bool(agreed.value), list(ranks[: min(missing.value, room)])


def should_checkpoint() -> bool:
    """True on all ranks after the same call, once the job is asked to save.

    Call it once a step, on every rank. See docs/guides/slurm.md.
    """
    should = ctypes.c_int()
    check(lib.dl_should_checkpoint(ctypes.byref(should)))
    return bool(should.value)
