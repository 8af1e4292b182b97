"""The errors of dlrun, and record(), which tells dlrun why a rank failed."""

import builtins
import functools
import json
import os
import time
import traceback
from typing import Any, Callable, Optional, TypeVar

from dlrun._library import lib


class Error(RuntimeError):
    """An error of dlrun.

    kind: "invalid argument", "timeout", "mismatch", "peer failed", ...
    rank: the rank of the job that it blames, for example one that died; None if it blames none. Of a
        Mismatch: one of the two whose calls the text quotes, which may be this rank.
    """

    def __init__(self, text: str, kind: str, rank: Optional[int] = None):
        super().__init__(text)
        self.kind = kind
        self.rank = rank

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.kind, self.rank)


class InvalidArgument(Error, ValueError):
    """A call with wrong arguments."""


class NotImplementedByGroup(Error, NotImplementedError):
    """What the group's backend lacks."""


class TimeoutError(Error, builtins.TimeoutError):
    """A deadline has passed; the text names the missing ranks."""


class ConnectionError(Error, builtins.ConnectionError):
    """A connection could not be made, or was lost."""


class Mismatch(Error):
    """The ranks have called different operations; the text quotes both."""


class PeerFailed(Error):
    """Another rank has ended; `rank` is its number."""


class Aborted(Error):
    """A rank has broken the group."""


# By dl_status.
_KINDS: list[tuple[str, type[Error]]] = [
    ("ok", Error),
    ("invalid argument", InvalidArgument),
    ("shape", InvalidArgument),
    ("dtype", InvalidArgument),
    ("index", InvalidArgument),
    ("not found", Error),
    ("io", Error),
    ("parse", Error),
    ("timeout", TimeoutError),
    ("connection", ConnectionError),
    ("authentication", Error),
    ("mismatch", Mismatch),
    ("peer failed", PeerFailed),
    ("aborted", Aborted),
    ("not implemented", NotImplementedByGroup),
    ("internal", Error),
]


def check(status: int) -> None:
    """Throws the error of this thread's last call of the library, unless it succeeded."""
    if status == 0:
        return
    kind, error = _KINDS[status] if status < len(_KINDS) else ("internal", Error)
    rank = lib.dl_last_error_rank()
    text = lib.dl_last_error().decode(errors="replace")
    raise error(text, kind, rank if rank >= 0 else None)


_F = TypeVar("_F", bound=Callable[..., Any])


def record(main: _F) -> _F:
    """Decorates a program's main function: dlrun reports the exception that ends it.

    It writes the exception to TORCHELASTIC_ERROR_FILE, as torch.distributed.elastic's record does,
    and lets it pass. Without dlrun it does nothing.
    """

    @functools.wraps(main)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        try:
            return main(*args, **kwargs)
        except Exception as error:
            path = os.environ.get("TORCHELASTIC_ERROR_FILE")
            if path:
                _write(path, error)
            raise

    return recorded  # type: ignore[return-value]


def _write(path: str, error: Exception) -> None:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    message = {
        "message": f"{type(error).__name__}: {error}",
        "extraInfo": {"py_callstack": text, "timestamp": str(int(time.time()))},
    }
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"message": message}, file)
    except OSError:
        pass  # the exception itself matters more
