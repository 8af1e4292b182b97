"""A typed program, for mypy --strict: what operations return, and which calls are mistakes (see typed_test.sh)."""

from typing import Iterator, Optional, Union

from typing_extensions import assert_type

import dlrun


def results(group: dlrun.Group, x: bytearray, is_async: bool) -> None:
    work = group.all_reduce(x, async_op=True)
    assert_type(work, dlrun.Work)
    work.wait()
    assert_type(group.recv(x, async_op=True), dlrun.Work)
    assert_type(group.recv(x), Optional[int])
    assert_type(group.recv(x, timeout=3), Optional[int])
    assert_type(group.recv(x, async_op=is_async), Union[dlrun.Work, int, None])
    for started in (
        group.reduce(x, root=1, async_op=True),
        group.reduce_scatter(x, x, async_op=True),
        group.broadcast(x, 1, async_op=True, timeout=2.5),
        group.all_gather(x, x, async_op=True),
        group.gather(x, async_op=True),
        group.scatter(x, x, root=1, async_op=True),
        group.all_to_all(x, x, async_op=True),
        group.all_gatherv(x, x, [1], async_op=True),
        group.reduce_scatterv(x, x, [1], "max", async_op=True),
        group.gatherv(x, counts=[1], async_op=True),
        group.scatterv(x, x, async_op=True),
        group.all_to_allv(x, x, [1], [1], async_op=True),
        group.all_reduce_list([x], order="tree", async_op=True),
        group.barrier(async_op=True),
        group.send(x, 1, tag=2, async_op=True),
        group.batch([dlrun.Send(x, 1), dlrun.Recv(x, 1)], async_op=True),
    ):
        assert_type(started, dlrun.Work)
    maybe = group.barrier(async_op=is_async, timeout=None)
    assert_type(maybe, Optional[dlrun.Work])
    assert_type(dlrun.wait_any([work, maybe]), int)


class Whole:
    """As NumPy's integers."""

    def __index__(self) -> int:
        return 1


def arguments(group: dlrun.Group, x: bytearray, counts: Iterator[Whole]) -> None:
    group.all_gatherv(x, x, counts)
    group.broadcast(x, Whole())
    assert_type(group.all_gather_bytes(x), list[bytes])
    group.broadcast_bytes(memoryview(x), root=Whole())
    group.scatter_bytes([x, b"", memoryview(x)])


def nothing(group: dlrun.Group, x: bytearray) -> None:
    """Without async_op, or with False, an operation returns nothing that could be used."""
    group.all_reduce(x, op="max").wait()  # wrong: attr-defined
    group.barrier(async_op=False, timeout=1).wait()  # wrong: attr-defined


def mistakes(group: dlrun.Group, x: bytearray) -> None:
    group.all_reduce(x, asinc_op=True)  # wrong: call-overload
    group.all_reduce(x, ordr="tree")  # wrong: call-overload
    group.broadcast(x, rot=1)  # wrong: call-overload
    group.all_reduce(x, op="mean")  # wrong: call-overload
    group.broadcast(x, root="one")  # wrong: call-overload
    group.barrier(timeout="soon")  # wrong: call-overload
    group.barrier(async_op=1)  # wrong: call-overload
    group.all_gather(x)  # wrong: call-overload
    dlrun.init(bakend="tcp")  # wrong: call-arg
