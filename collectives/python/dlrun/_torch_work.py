"""The end of operations in PyTorch: futures, and what a Work says of itself."""

import os
import queue
import threading
from typing import Any, Callable, Optional

import torch
from torch._C._distributed_c10d import Work as TorchWork
from torch._C._distributed_c10d import _create_work_from_future

from dlrun.group import Work


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

    def is_this_thread(self) -> bool:
        return threading.current_thread() is self._thread

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
                    if isinstance(result, Received):
                        result.source = work.source()
                    future.set_result(result)
                except Exception as error:
                    future.set_exception(error)
            over = work = last = future = result = None  # type: ignore[assignment]


_finisher = _Finisher()
os.register_at_fork(after_in_child=_finisher.__init__)


class Received(list):  # type: ignore[type-arg]
    """The result of a receive from any rank, with the rank that sent it."""

    source: Optional[int] = None


def started(work: Work, last: Callable[[], None], result: Any) -> Any:
    """A Work of PyTorch for an operation under way; `last` brings its results to their place."""
    if _finisher.is_this_thread():
        # A future's callback has started it, and may wait for it (PowerSGD's does).
        work.wait()
        last()
        return done(result)
    future: Any = torch.futures.Future()
    _finisher.add(work, last, future, result)
    return _create_work_from_future(future)


def done(result: Any) -> Any:
    """A Work of PyTorch for an operation that is over."""
    future: Any = torch.futures.Future()
    future.set_result(result)
    return _create_work_from_future(future)


def all_of(works: list[Any], result: list[Any]) -> Any:
    """One Work for several."""
    future = torch.futures.collect_all([w.get_future() for w in works])
    return _create_work_from_future(future.then(lambda f: (f.wait(), result)[1]))


# ---- what a Work says of itself --------------------------------------------------------------------

_UNKNOWN = 100  # c10d::OpType::UNKNOWN: a Work of a backend in Python, or one made from a future


def _future_of(work: Any) -> Any:
    """The future of a backend in Python, if it is done; else None."""
    if int(work._get_op_type()) != _UNKNOWN:
        return None
    try:
        future = work.get_future()
    except RuntimeError:  # another package's Work may have none
        return None
    return future if future.done() else None


def _error_of(work: Any) -> Optional[Exception]:
    future = _future_of(work)
    try:
        if future is not None:
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
    is_completed, is_success = TorchWork.is_completed, TorchWork.is_success
    exception, source = TorchWork.exception, TorchWork._source_rank

    def source_rank(self: Any) -> int:
        future = _future_of(self)
        result = None if future is None else future.value()
        found = result.source if isinstance(result, Received) else None
        return source(self) if found is None else found

    TorchWork.is_completed = lambda self: is_completed(self) or _future_of(self) is not None
    TorchWork.is_success = lambda self: is_success(self) and _error_of(self) is None
    TorchWork.exception = lambda self: exception(self) or _error_of(self)
    TorchWork._source_rank = TorchWork.source_rank = source_rank
    TorchWork._dlrun_taught = True
