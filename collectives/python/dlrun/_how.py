"""What every operation takes beside its own arguments, and what it returns then: as types, and as checks of keywords."""

from __future__ import annotations

import difflib
import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, Protocol, TypedDict, TypeVar, Union, overload

F = TypeVar("F", bound=Callable[..., Any])
IsAsync = TypeVar("IsAsync", bound=bool)  # the type of `async_op`: Literal[True], Literal[False] or bool

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    from dlrun.group import Work

    Waits = ParamSpec("Waits")
    Starts = ParamSpec("Starts")
    Either = ParamSpec("Either")
    Result = TypeVar("Result", covariant=True)

    class How(TypedDict, Generic[IsAsync], total=False):
        async_op: IsAsync
        timeout: Optional[float]

    class Operation(Protocol[Waits, Starts, Either, Result]):
        """A method with three signatures, which differ in the type of `async_op`."""

        @overload
        def __call__(self, *args: Waits.args, **kwargs: Waits.kwargs) -> Result: ...
        @overload
        def __call__(self, *args: Starts.args, **kwargs: Starts.kwargs) -> Work: ...
        @overload
        def __call__(self, *args: Either.args, **kwargs: Either.kwargs) -> Union[Work, Result]: ...

    def typed(
        waits: Callable[Waits, Union[Work, Result]],
        starts: Callable[Starts, Any],
        either: Callable[Either, Any],
    ) -> Operation[Waits, Starts, Either, Result]: ...


def checks_keywords(function: F) -> F:
    """A function whose error for a misspelt keyword names the keyword that is near it."""
    takes = list(inspect.signature(function).parameters)
    return _checking(function, function.__name__, takes)


def operation(method: F) -> F:
    """A method of Group with `**how`, which is `async_op` and `timeout`."""
    own = inspect.signature(method)
    given = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    for name, default, type in (("async_op", False, "bool"), ("timeout", None, "Optional[float]")):
        given.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type))
    method.__qualname__ = f"Group.{method.__name__}"  # for Python's own errors
    checked = _checking(method, method.__name__, [p.name for p in given[1:]])
    # What help() shows.
    checked.__signature__ = own.replace(parameters=given)  # type: ignore[attr-defined]
    hints = {p.name: p.annotation for p in given[1:]}
    checked.__annotations__ = {**hints, "return": own.return_annotation}
    return checked


def _checking(function: F, name: str, takes: list[str]) -> F:
    known = frozenset(takes)

    @functools.wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        if not known.issuperset(given):
            raise TypeError(_unknown(name, takes, next(g for g in given if g not in known)))
        return function(*args, **given)

    return checked  # type: ignore[return-value]


def _unknown(name: str, takes: list[str], given: str) -> str:
    near = difflib.get_close_matches(given, takes, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"it takes {', '.join(takes)}"
    return f"{name}() takes no argument '{given}'; {hint}"
