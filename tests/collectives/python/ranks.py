"""A rank of python_test.sh: `ranks.py PART`. Python's own arrays, so that NumPy need not be there."""

import array
import copy
import gc
import os
import pickle
import re
import select
import signal
import subprocess
import sys
import threading
import traceback

import dlrun


# What Python has under other names.
NAMES_OF_C = re.compile(r"\bdl_|\bdl::|premul_|_process_group|default_group|_symmetric")


def fails(error, text, call, *args, **kwargs):
    """Checks that the call throws this error with this text; returns the error."""
    try:
        call(*args, **kwargs)
    except error as thrown:
        assert text in str(thrown), f"'{text}' is not in '{thrown}'"
        assert not NAMES_OF_C.search(str(thrown)), f"'{thrown}' names a function of C or C++"
        return thrown
    raise AssertionError(f"{call} threw nothing, wanted {error} with '{text}'")


def collectives(group):
    rank, size = group.rank, group.size
    x = array.array("f", [rank, 1])
    group.all_reduce(x)
    assert list(x) == [sum(range(size)), size], x
    y = array.array("d", [0, 0])
    group.all_reduce(array.array("d", [1, rank]), y, "max", order="tree")
    assert list(y) == [1, size - 1]
    small = array.array("f", [1])
    group.all_reduce(small, factor=rank + 1.0)
    assert small[0] == size * (size + 1) / 2
    group.reduce(x := array.array("i", [rank]), root=1)
    assert x[0] == (sum(range(size)) if rank == 1 else rank)
    part = array.array("q", [0])
    group.reduce_scatter(array.array("q", range(size)), part)
    assert part[0] == size * rank
    word = bytearray(b"hello" if rank == 2 else 5)
    group.broadcast(word, root=2)
    assert word == b"hello"
    everything = array.array("h", [0] * size)
    group.all_gather(array.array("h", [rank]), everything)
    assert list(everything) == list(range(size))
    all_of = array.array("h", [0] * size) if rank == 0 else None
    group.gather(array.array("h", [10 * rank]), all_of)
    assert all_of is None or all_of[size - 1] == 10 * (size - 1)
    group.scatter(all_of, out := array.array("h", [0]))
    assert out[0] == 10 * rank
    group.all_to_all(array.array("B", [10 * rank + i for i in range(size)]), got := bytearray(size))
    assert list(got) == [10 * r + rank for r in range(size)]
    group.barrier()
    group.monitored_barrier(60)


def parts(group):
    rank, size = group.rank, group.size
    counts = list(range(size))  # 0, 1, 2
    out = array.array("i", [-1] * sum(counts))
    group.all_gatherv(array.array("i", [rank] * rank), out, counts)
    assert list(out) == [r for r in range(size) for _ in range(r)]
    own = array.array("i", [0] * rank)
    group.reduce_scatterv(array.array("i", [1] * sum(counts)), own, counts)
    assert list(own) == [size] * rank
    group.gatherv(own, out if rank == 0 else None, counts, root=0)
    group.scatterv(out if rank == 0 else None, own, counts, root=0)
    assert list(own) == [size] * rank
    sent = array.array("i", [rank] * size)
    group.all_to_allv(sent, out := array.array("i", [0] * size), [1] * size, [1] * size)
    assert list(out) == list(range(size))
    numbers = [array.array("f", [rank + i] * (i + 1)) for i in range(4)]
    group.all_reduce_list(numbers)
    assert [list(n) for n in numbers] == [[3.0 + 3 * i] * (i + 1) for i in range(4)]


def messages(group):
    rank, size = group.rank, group.size
    right, left = (rank + 1) % size, (rank - 1) % size
    got = array.array("i", [0])
    work = group.batch([dlrun.Send(array.array("i", [rank]), right, 7), dlrun.Recv(got, left, 7)],
                       async_op=True)
    work.wait()
    assert got[0] == left and work.source(1) == left and work.source(0) is None
    if rank == 0:
        sources = {group.recv(got) for _ in range(size - 1)}
        assert sources == set(range(1, size))
    else:
        group.send(array.array("i", [rank]), 0)
    # Descriptors, and waits for one of several.
    go = bytearray(1)
    works = [None, group.recv(go, left, 9, async_op=True)]
    fails(dlrun.errors.TimeoutError, "still running", works[1].wait, 0.01)
    fails(dlrun.errors.TimeoutError, "wait_any: none of 1", dlrun.wait_any, works, 0.01)
    fails(TimeoutError, "none of 1", dlrun.wait_any, works, 0.01)  # Python's own is its base
    group.barrier()
    group.send(b"x", right, 9)
    assert select.select([works[1]], [], [], 60)[0] == [works[1]]
    assert dlrun.wait_any(works) == 1 and works[1].is_completed() and go == b"x"


def dropped(group):
    """A dropped operation goes on, and its buffers live as long."""
    size = group.size
    for _ in range(20):
        group.all_reduce(array.array("f", [1] * 100000), async_op=True)
    x = array.array("f", [1])
    group.all_reduce(x)
    assert x[0] == size


def strings(group):
    rank, size = group.rank, group.size
    assert group.all_gather_bytes(b"\0" * rank) == [b"\0" * r for r in range(size)]
    assert group.gather_bytes(bytes([rank]), 1) == ([b"\0", b"\1", b"\2"] if rank == 1 else None)
    assert group.broadcast_bytes(b"a\0b" if rank == 0 else None) == b"a\0b"
    cut = [b"", b"1", b"22"]
    assert group.scatter_bytes(cut if rank == 0 else None) == cut[rank]
    assert group.all_gather_object({"rank": rank}) == [{"rank": r} for r in range(size)]
    assert group.broadcast_object(("x", rank), 2) == ("x", 2)
    # A value that cannot be pickled is an error on all ranks.
    own = AttributeError if sys.version_info < (3, 14) else pickle.PicklingError
    for call in (group.all_gather_object, lambda value: group.broadcast_object(value, 1)):
        error = (own, "<lambda>") if rank == 1 else (ValueError, "rank 1 of the group cannot pickle its value")
        fails(*error, call, (lambda: 0) if rank == 1 else 0)
    assert dlrun.agree("all", rank != 1, 60) == (False, [])
    assert dlrun.should_checkpoint() is False


def groups(group):
    part = group.split(dlrun.NO_COLOR if group.rank == 0 else 1, -group.rank)
    assert (part is None) == (group.rank == 0)
    if part is not None:
        assert part.size == 2 and part.rank == 2 - group.rank
        part.barrier()
        part.close()
        fails(ValueError, "closed", part.barrier)
    with group.split_by_node() as node:
        assert node.size == group.size and node.name != group.name
    memory = group.allocate(4000)
    assert memory.nbytes == 4000 and (memory.why_not == "") == (group.backend == "shm")
    x = memory.buffer.cast("f")
    x[0] = 1
    group.all_reduce(x)
    memory.check()
    assert x[0] == group.size and x[999] == 0


def by_id(group):
    """A group over an id, in another order."""
    size = group.size
    id = group.broadcast_bytes(dlrun.unique_id() if group.rank == size - 1 else b"", root=size - 1)
    rank = size - 1 - group.rank
    with dlrun.make_group(rank, size, id=id, name="turned", timeout=60) as turned:
        x = array.array("i", [turned.rank])
        turned.all_reduce(x)
        assert x[0] == sum(range(size)) and turned.rank == rank and turned.name == "turned"
        turned.barrier()
    id = group.broadcast_bytes(dlrun.unique_id() if group.rank == size - 1 else b"", root=size - 1)
    with dlrun.make_group(rank, size, id=id, timeout=60, job_ranks=reversed(range(size))) as known:
        known.barrier()
    fails(ValueError, "wanted the 128 of unique_id()", dlrun.make_group, 0, 2, id=b"short")
    fails(ValueError, "are no id of dlrun", dlrun.make_group, 1, 2, id=bytes(128))
    fails(ValueError, "the id is damaged", dlrun.make_group, 1, 2, id=id[:-1] + bytes([id[-1] ^ 1]))
    group.barrier()


def reformed(group):
    """Rank 1 dies; the others go on."""
    turned = group.split(0, key=group.size - group.rank)
    fails(ValueError, "was made by split()", turned.reform)
    rank = group.rank
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    x = array.array("f", [1])
    fails(dlrun.Error, "rank 1", lambda: [group.all_reduce(x) for _ in range(1 << 30)])
    made = group.reform(timeout=60)
    assert made.size == 2 and made.rank == rank // 2 and made.name == group.name + "~1"
    x = array.array("i", [rank])
    made.all_reduce(x)
    assert x[0] == 2
    again = made.reform()
    assert again.size == 2 and again.name == group.name + "~2"
    fails(ValueError, "is closed", made.barrier)
    again.barrier()
    print(f"rank {rank} has gone on", flush=True)
    again.close()


def threads(group):
    """A thread that waits lets others run."""
    go = bytearray(1)
    waiting = group.recv(go, group.rank - 1, 3, async_op=True) if group.rank > 0 else None
    if waiting is not None:
        thread = threading.Thread(target=waiting.wait)
        thread.start()
        if group.rank + 1 < group.size:
            group.send(b"x", group.rank + 1, 3)
        thread.join()
        assert go == b"x"
    else:
        group.send(b"x", 1, 3)


def wrong(group):
    x = array.array("f", [0] * 4)
    fails(dlrun.Error, "NoneType has no buffer", group.all_reduce, None)
    fails(ValueError, "no reduction 'mean'; there are sum, avg", group.all_reduce, x, op="mean")
    fails(ValueError, "cannot be written", group.broadcast, b"read", (group.rank + 1) % group.size)
    fails(ValueError, "not contiguous", group.all_reduce, memoryview(x)[::2])
    fails(ValueError, "are no dtype", group.all_reduce, array.array("u", "ab"))
    fails(ValueError, "different dtypes", group.all_reduce, x, array.array("d", [0] * 4))
    fails(ValueError, "output has 4 elements, wanted 12", group.all_gather, x, array.array("f", x))
    fails(ValueError, "bxor has no meaning for f32", group.all_reduce, x, op="bxor")
    fails(ValueError, "for each of 3 ranks", group.all_gatherv, x, x, [1, 2])
    fails(ValueError, "counts add to 9", group.all_gatherv, x, x, [3, 3, 3])
    # What has room for more than the result is more likely a mistake than a wish.
    eight = array.array("f", [7] * 8)
    fails(ValueError, "output has 8 elements, wanted 4", group.all_reduce, x, eight)
    fails(ValueError, "input has 8 elements, wanted 12", group.reduce_scatter, eight, x)
    fails(ValueError, "output has 16 elements, wanted 12", group.all_gather, x, eight + eight)
    assert list(eight) == [7] * 8
    fails(ValueError, "share memory", group.all_reduce_list, [x, x])
    fails(ValueError, "share memory", group.batch, [dlrun.Recv(memoryview(x)[i:], (group.rank + 1) % 3) for i in range(2)])
    fails(ValueError, "async_op is 'no', wanted True or False", group.barrier, async_op="no")
    fails(ValueError, "async_op is 1", group.recv, x, async_op=1)
    fails(ValueError, "wanted 0 or more, or NO_COLOR", group.split, -2)
    fails(ValueError, "no reductions but sum and avg", group.all_reduce, dlrun.Typed(bytearray(8), "c64"), op="max")
    fails(ValueError, "dtype 13 is not one", group.all_reduce, dlrun.Typed(bytearray(8), "c64"), factor=2.0)
    fails(ValueError, "close() it first", dlrun.init)
    fails(ValueError, "timeout is 0", group.barrier, timeout=0)
    fails(ValueError, "broadcast: root is 4294967296, and the group has ranks 0 to 2", group.broadcast, x, 1 << 32)
    for call in (group.gather_bytes, group.broadcast_bytes):
        fails(ValueError, f"{call.__name__}: root is -1, and", call, b"", -1)
    fails(ValueError, "broadcast_object: root is 3, and", group.broadcast_object, None, 3)
    fails(ValueError, "broadcast: root is a list, wanted a whole number", group.broadcast, x, list(range(99)))
    fails(ValueError, "abort: reason is 3, wanted a text", group.abort, 3)
    fails(ValueError, "counts is a dict, wanted a list", group.all_gatherv, x, x, {})
    fails(ValueError, "flag is 'yes', wanted True or False", dlrun.agree, "a", "yes", 1)
    fails(ValueError, "patience is -1.0, wanted 0 or more", dlrun.agree, "a", True, -1)
    fails(ValueError, "out of range", group.split, 1 << 40)
    fails(ValueError, "wanted a whole number", group.split, 1.5)
    fails(ValueError, "more than memory can hold", group.allocate, -1)
    fails(ValueError, "more than memory can hold", group.allocate, 1 << 63)
    fails(ValueError, "is a str, wanted bytes", group.all_gather_bytes, "text")
    fails(ValueError, "agree: name is 'a\\x00b', wanted a text without NUL", dlrun.agree, "a\0b", True, 1)
    fails(ValueError, "tag is -1", group.send, x, 0, -1)
    error = fails(dlrun.errors.InvalidArgument, "peer", group.send, x, 99)
    assert error.kind == "invalid argument" and error.rank is None
    half = bytearray(4)
    group.all_reduce(dlrun.Typed(half, "bf16"))
    fails(ValueError, "'bf17' is no dtype", group.all_reduce, dlrun.Typed(half, "bf17"))
    fails(ValueError, "elements of 4 bytes are no bf16, which has 2", group.all_reduce, dlrun.Typed(x, "bf16"))
    fails(ValueError, "not whole elements", group.all_reduce, dlrun.Typed(bytearray(3), "bf16"))
    group.barrier()


def arguments(group):
    """Wrong arguments are one sentence that names them. Any number of ranks."""
    x, size = array.array("f", [1] * 4), group.size
    many, mine = array.array("f", [1] * 4 * size), array.array("f", [0] * 4)
    for call, name in (
        (lambda **how: group.reduce_scatterv(many, mine, [4] * size, factor=2.0, **how), "factor"),
        (lambda **how: group.reduce_scatterv(many, mine, [4] * size, order="tree", **how), "order"),
        (lambda **how: group.all_reduce(x, root=0, **how), "root"),
        (lambda **how: group.all_reduce(x, foo=1, **how), "foo"),
        (lambda **how: group.all_reduce_list([x], foo=1, **how), "foo"),
        (lambda **how: group.batch([], foo=1, **how), "foo"),
        (lambda **how: group.recv(x, foo=1, **how), "foo"),
        (lambda **how: group.barrier(foo=1, **how), "foo"),
    ):
        for how in ({}, {"async_op": True, "timeout": 60}):
            error = fails(TypeError, f"() takes no argument '{name}'", call, **how)
            assert not str(error).startswith("_"), error
    # The keyword that was meant, also if the call lacks an argument for it.
    fails(TypeError, "no argument 'asinc_op'; did you mean 'async_op'?", group.all_reduce, x, asinc_op=True)
    fails(TypeError, "all_gather() takes no argument 'ouput'; did you mean 'output'?", group.all_gather, x, ouput=many)
    fails(TypeError, "barrier() takes no argument 'root'; it takes async_op, timeout", group.barrier, root=0)
    fails(TypeError, "init() takes no argument 'bakend'; did you mean 'backend'?", dlrun.init, bakend="tcp")
    fails(TypeError, "Group.send() missing 1 required", group.send, x)
    fails(TypeError, "reduce_scatterv() takes", group.reduce_scatterv, many, mine, [4] * size, factor=2.0)
    fails(ValueError, "all_reduce: factor is '2', wanted a number", group.all_reduce, x, factor="2")
    numbers = array.array("i", [1])
    fails(dlrun.Error, "reduce: a factor needs a floating dtype, got i32", group.reduce, numbers, factor=2.0)
    fails(ValueError, "reduce: a factor works with sum and avg only, got max", group.reduce, x, op="max", factor=2.0)
    fails(ValueError, "wait_any: there is no work to wait for", dlrun.wait_any, [None])
    for wrong, shown in (("1", "'1'"), ([1], "[1]"), (10**400, "1" + "0" * 56 + "..."), ("x" * 99, "'" + "x" * 56 + "...")):
        fails(ValueError, f"timeout is {shown}, wanted a number", group.barrier, timeout=wrong)
        fails(ValueError, f"timeout is {shown}, wanted a number", group.all_gather_bytes, b"", wrong)
        fails(ValueError, f"patience is {shown}, wanted a number", dlrun.agree, "wrong", True, wrong)
    fails(ValueError, "split: color is an int, which", group.split, 10**5000)
    fails(ValueError, "more than memory can hold", group.allocate, 10**5000)
    fails(ValueError, "timeout is None", group.monitored_barrier, None)
    error = fails(ValueError, "timeout is -1, wanted more than 0 seconds", group.monitored_barrier, -1)
    assert "None" not in str(error), error
    fails(ValueError, "send: peer is '1', wanted a whole number", group.send, x, "1")
    fails(ValueError, "no order '[]'", group.all_reduce, x, order=[])
    fails(ValueError, "message 0 is 1, wanted a dlrun.Send or dlrun.Recv", group.batch, [1])
    fails(ValueError, "batch: messages is a NoneType, wanted a list", group.batch, None)
    fails(ValueError, "all_reduce_list: buffers is a NoneType", group.all_reduce_list, None)
    fails(ValueError, "counts is an int, wanted a list", group.all_gatherv, x, many, 4)
    for call in (
        lambda: group.all_gatherv(x, many, None),
        lambda: group.reduce_scatterv(many, mine, None),
        lambda: group.all_to_allv(many, many[:], None, [4] * size),
        lambda: group.gatherv(x, many, root=group.rank),
        lambda: group.scatterv(many, mine, root=group.rank),
    ):
        fails(ValueError, f"counts has 0 elements, wanted one for each of {size} ranks", call)
    fails(ValueError, "wait_any: works is a NoneType", dlrun.wait_any, None)
    fails(ValueError, "work 0 is 1, wanted a Work or None", dlrun.wait_any, [1])
    fails(ValueError, "message is 'a', wanted a whole number", group.barrier(async_op=True).source, "a")
    fails(ValueError, "tag is 'a', wanted a whole number", group.send, x, 0, "a")
    fails(ValueError, "'[]' is no dtype", group.all_reduce, dlrun.Typed(x, []))
    released = memoryview(bytearray(4))
    released.release()
    fails(ValueError, "all_reduce: input: ", group.all_reduce, released)
    for wrong in ("64", 64.0, None):
        fails(ValueError, f"nbytes is {wrong!r}, wanted a whole number", group.allocate, wrong)
    for rank in (0, 1):
        fails(ValueError, "size is 1000000000, wanted at most 1000000", dlrun.make_group, rank, 10**9, id=bytes(128))
    fails(ValueError, "init: size is 1000001, wanted at most 1000000", dlrun.init, size=1_000_001)
    fails(ValueError, "init: size is 0, wanted 1 or more, or None", dlrun.init, size=0)
    for wrong, text in (((0, 0), "size is 0, wanted 1 or more"), ((1, 1), "rank is 1, wanted 0 to 0, as size is 1"),
                        ((-1, 1), "rank is -1, wanted 0 or more")):
        error = fails(ValueError, f"make_group: {text}", dlrun.make_group, *wrong, id=bytes(128))
        assert "None" not in str(error), error
    fails(ValueError, "name is '\\udc80', which cannot be written in UTF-8", dlrun.make_group, 0, 1, id=bytes(128), name="\udc80")
    fails(ValueError, 'without control characters, got "a', dlrun.make_group, 0, 1, id=bytes(128), name="a\nb")
    for wrong, text in (([0], "1 elements, wanted one for each of 2"), ([0, 0], "0 twice"), ([0, -1], "is -1"), (5, "is an int, wanted a list")):
        fails(ValueError, text, dlrun.make_group, 0, 2, id=bytes(128), job_ranks=wrong)
    # All of it has broken nothing.
    group.all_reduce(x, timeout=60)
    assert list(x) == [size] * 4
    memory = group.allocate(64)
    bytes_of, memory = memory.buffer, None
    assert bytes_of.format == "B" and bytes_of[63] == 0 and len(bytes_of) == 64
    assert len(group.allocate(0).buffer) == 0
    bytes_of[0] = 5
    group.barrier()
    assert bytes_of[0] == 5


class Cycle:
    """An object that only the collector frees."""

    def __init__(self):
        self.me = self


def lifetimes(group):
    for own in (group, group.allocate(64), group.barrier(async_op=True)):
        fails(TypeError, "cannot be copied or pickled", copy.copy, own)
        fails(TypeError, "cannot be copied or pickled", pickle.dumps, own)
    error = pickle.loads(pickle.dumps(dlrun.errors.PeerFailed("gone", "peer failed", 1)))
    assert error.rank == 1 and str(error) == "gone"
    # The collector drops works while others are being dropped.
    gc.set_threshold(1)
    other = 1 - group.rank
    for tag in range(300 if group.rank < 2 else 0):
        Cycle().work = group.recv(array.array("d", [0, 0]), other, tag, async_op=True)
    gc.set_threshold(700)
    for tag in range(300 if group.rank < 2 else 0):
        group.send(array.array("d", [1, 2]), other, tag)
    group.barrier()
    # A group is closed while another thread calls.
    for _ in range(20):
        part = group.split(0)
        thread = threading.Thread(target=call_until_closed, args=(part,))
        thread.start()
        part.close()
        thread.join()


def call_until_closed(group):
    try:
        while True:
            group.barrier()
    except dlrun.Error:
        pass


def ready(group):
    """Small operations become readable without a wait."""
    for start in (group.barrier, lambda **how: group.all_reduce(array.array("f", [1]), **how)):
        for _ in range(5):
            work = start(async_op=True)
            assert select.select([work], [], [], 60)[0] == [work]
            work.wait()


def forked(group):
    """A child that a rank forks is told so by every call."""
    child = os.fork()
    if child == 0:
        try:
            fails(ValueError, "init: this process is a child that a rank has forked", dlrun.init)
            fails(ValueError, "a child that it forked", group.barrier)
            fails(ValueError, "a child that a rank has forked", dlrun.agree, "forked", True, 60)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    group.barrier()


def spawned(group):
    """A worker that a rank starts is not the rank, and breaks nothing."""
    subprocess.run([sys.executable, __file__, "worker"], check=True)
    group.barrier()
    with group.split(0) as part:
        part.barrier()


def worker():
    text = f"init: process {os.getppid()} is rank {os.environ['RANK']} of job "
    fails(ValueError, text, dlrun.init, name="test", timeout=120)


def handed(group):
    """A place that is free again is the next process's."""
    group.close()
    # A child that has inherited all descriptors keeps none of it.
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    with dlrun.init(timeout=120, name="test") as again:
        again.barrier()
    subprocess.run([sys.executable, __file__, "small"], check=True)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0


def small(group):
    group.barrier()


def killed(group):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # dlrun ends the others soon
    group.barrier()
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    error = fails(dlrun.errors.PeerFailed, "rank 1", group.barrier)
    assert error.rank == 1 and error.kind == "peer failed"
    fails(dlrun.errors.PeerFailed, "rank 1", group.barrier)  # the first cause again
    print(f"rank {group.rank} has seen it", flush=True)


def mismatched(group):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    error = fails(dlrun.errors.Mismatch, "barrier", group.barrier if group.rank else lambda:
                  group.all_reduce(bytearray(4096)))
    print(f"rank {group.rank} has seen it: {error.kind}", flush=True)


def ends(group):
    group.barrier()
    last = Cycle()
    x = array.array("d", [1]) * 3000000
    last.work = group.all_reduce(x, async_op=True)
    x = None


@dlrun.errors.record
def recorded(group):
    if group.rank == 0:
        raise LookupError("no batch 17")
    group.barrier()


PARTS = [collectives, parts, messages, dropped, strings, groups, by_id, threads, wrong, arguments, lifetimes, ready, forked, spawned]

if __name__ == "__main__":
    chosen = sys.argv[1]
    if chosen == "worker":
        sys.exit(worker())
    if chosen == "ends":  # without a close()
        kept = dlrun.init(timeout=120)
        sys.exit(ends(kept))
    method = os.environ.get("RANKS_METHOD")
    with dlrun.init(timeout=120, name="test", init_method=method) as world:
        assert world.size == int(os.environ["WORLD_SIZE"]) and world.name == "test" and world.rank == int(os.environ["RANK"])
        for part in PARTS if chosen == "all" else [globals()[chosen]]:
            part(world)
    print(f"rank {world.rank} is done", flush=True)
