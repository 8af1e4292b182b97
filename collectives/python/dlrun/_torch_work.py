"""The end of operations in PyTorch: futures, and what a Work says of itself."""

import atexit
import os
import queue
import threading
import weakref
from datetime import timedelta
from typing import Any, Callable, Optional

import torch
from torch._C._distributed_c10d import Work as TorchWork
from torch._C._distributed_c10d import _create_work_from_future

from dlrun._torch_versions import HAS_BACKENDS
from dlrun.group import Work


class _Finisher:
    """The thread that waits for asynchronous operations, and completes their futures."""

    def __init__(self) -> None:
        self._queue: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._lock = threading.Lock()
        self._is_over = False

    def add(self, started: "_Started") -> bool:
        """False if this thread has to wait for the operation itself."""
        with self._lock:
            # A future's callback may have started it on the finisher's thread, and wait for it (PowerSGD's does).
            if self._is_over or threading.current_thread() is self._thread:
                return False
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="dlrun-torch", daemon=True)
                self._thread.start()
        self._queue.put(started)
        return True

    def stop(self) -> None:
        """At Python's end, which aborts the process if a thread still completes a future in C++ then."""
        with self._lock:
            self._is_over = True
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(_LONGEST_CALLBACK_S)

    def _run(self) -> None:
        pending: list[_Started] = []
        while not self._is_over:
            if not pending:
                pending.append(self._queue.get())
            while not self._queue.empty():
                pending.append(self._queue.get())
            if self._is_over:
                return
            # Collectives of a group end in order. What ends before others is seen after a millisecond.
            pending[0].work._wait_briefly(0.001)
            over = [p for p in pending if p.work.is_completed()]
            pending = [p for p in pending if not any(p is o for o in over)]
            for started in over:
                started.finish()
            over = started = None  # type: ignore[assignment]


_LONGEST_CALLBACK_S = 5  # of a program's own callbacks, for which Python's end waits

_finisher = _Finisher()
os.register_at_fork(after_in_child=_finisher.__init__)
atexit.register(_finisher.stop)


class Received(list):  # type: ignore[type-arg]
    """The result of a receive from any rank, with the rank that sent it."""

    source: Optional[int] = None


def _value(future: Any) -> Any:
    """What a future is given; thrown here, an error is one for C++, too."""
    result, error = future.value()
    if error is not None:
        raise error
    return result


class _Started(TorchWork):
    """An operation under way; `last` brings its results to their place."""

    def __init__(self, work: Work, last: Callable[[], None], result: Any):
        super().__init__()
        self.work = work
        self._last, self._result = last, result
        self.error: Optional[Exception] = None
        self._outcome: Any = torch.futures.Future()
        self._future = self._outcome.then(_value)

    def finish(self) -> None:
        """The finisher, once the operation is over."""
        try:
            self.work.wait()
            self._last()
            if isinstance(self._result, Received):
                self._result.source = self.work.source()
        except Exception as error:
            self.error = error
        outcome, self._outcome = self._outcome, None
        outcome.set_result((self._result, self.error))

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        if timeout > timedelta(0):
            self.work.wait(timeout.total_seconds())
        try:
            self._future.wait()
        except Exception:
            if self.error is None:
                raise
            raise self.error from None
        return True

    def get_future(self) -> Any:
        return self._future


class _Several(TorchWork):
    """Several operations as one."""

    def __init__(self, works: list[Any], result: Any):
        super().__init__()
        self._works = works
        all_over = torch.futures.collect_all([w.get_future() for w in works])
        self._future = all_over.then(lambda f: (f.wait(), result)[1])

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        for work in self._works:
            work.wait(timeout)
        self._future.wait()
        return True

    def get_future(self) -> Any:
        return self._future


def started(work: Work, last: Callable[[], None], result: Any) -> Any:
    """A Work of PyTorch for an operation under way."""
    under_way = _Started(work, last, result)
    if not _finisher.add(under_way):
        work.wait()
        last()
        return done(result)
    return hand_out(under_way)


def done(result: Any) -> Any:
    """A Work of PyTorch for an operation that is over."""
    future: Any = torch.futures.Future()
    future.set_result(result)
    return _create_work_from_future(future)


def all_of(works: list[Any], result: list[Any]) -> Any:
    """One Work for several."""
    return hand_out(_Several(works, result))


# C++ of PyTorch 2.4 drops the Python part of a Work. So older versions get a Work of C++, made from the
# future, and its Python part is found here.
_parts: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


def hand_out(work: Any) -> Any:
    if HAS_BACKENDS:
        return work
    handle = _create_work_from_future(work.get_future())
    _parts[handle] = work
    return handle


# ---- what a Work says of itself --------------------------------------------------------------------

_UNKNOWN = 100  # c10d::OpType::UNKNOWN: a Work of a backend in Python, or one made from a future


def _future_of(work: Any) -> Any:
    """The future of a backend in Python; None for other backends."""
    if int(work._get_op_type()) != _UNKNOWN:
        return None
    try:
        return work.get_future()
    except RuntimeError:  # another package's Work may have none
        return None


def _error_of(work: Any, future: Any) -> Optional[Exception]:
    part = _parts.get(work)
    if isinstance(part, _Started) and part.error is not None:
        return part.error
    try:
        if future is not None and future.done():
            future.value()
    except Exception as error:
        return error
    return None


def teach_works() -> None:
    """Lets a Work of a backend in Python tell the truth.

    PyTorch passes only wait() and get_future() on to it. It answers the rest from a Work that never
    began: is_completed() would stay False, and a loop that polls it would never end. Works of
    PyTorch's own backends keep their answers.
    """
    if hasattr(TorchWork, "_dlrun_taught") or not hasattr(TorchWork, "_get_op_type"):
        return
    was = {name: getattr(TorchWork, name) for name in ("is_completed", "is_success", "exception", "_source_rank", "wait")}

    def is_completed(self: Any) -> bool:
        future = _future_of(self)
        return was["is_completed"](self) or (future is not None and future.done())

    def is_success(self: Any) -> bool:
        return was["is_success"](self) and _error_of(self, _future_of(self)) is None

    def exception(self: Any) -> Any:
        # Older versions cannot bring an exception of C++, or the lack of one, to Python.
        future = _future_of(self)
        return was["exception"](self) if future is None else _error_of(self, future)

    def source_rank(self: Any) -> int:
        future = _future_of(self)
        result = future.value() if future is not None and future.done() else None
        found = result.source if isinstance(result, Received) else None
        return was["_source_rank"](self) if found is None else found

    def wait(self: Any, timeout: timedelta = timedelta(0)) -> bool:
        part = _parts.get(self)
        return was["wait"](self, timeout) if part is None else part.wait(timeout)

    TorchWork.is_completed, TorchWork.is_success, TorchWork.exception = is_completed, is_success, exception
    TorchWork._source_rank = TorchWork.source_rank = source_rank
    if not HAS_BACKENDS:
        TorchWork.wait = wait
    TorchWork._dlrun_taught = True
