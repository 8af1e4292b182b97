"""Compares the backend dlrun with Gloo, operation by operation, and DDP's losses. By hand, with PyTorch (2.4 or newer) in an
environment:

    dlrun -n 2 tests/torch/backend_check.py
    dlrun -n 3 tests/torch/backend_check.py
"""

import atexit
import os
import threading
from datetime import timedelta

import torch
import torch.distributed as dist


@atexit.register  # before dlrun's own, so this runs after it
def finisher_has_ended():
    if any(thread.name == "dlrun-torch" for thread in threading.enumerate()):
        print("the finisher runs on at Python's end", flush=True)
        os._exit(1)


import dlrun.torch  # needed before PyTorch 2.14
from dlrun._torch_versions import HAS_BACKENDS
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("dlrun", timeout=timedelta(seconds=60))
gloo = dist.new_group(backend="gloo")
rank, size = dist.get_rank(), dist.get_world_size()
own = dist.group.WORLD._get_backend(torch.device("cpu"))
right, left = (rank + 1) % size, (rank - 1) % size
different = 0


def same(what, ours, theirs):
    global different
    pairs = zip(ours, theirs) if isinstance(ours, list) else [(ours, theirs)]
    for a, b in pairs:
        if not torch.equal(a, b):
            different += 1
            print(f"rank {rank}: {what}: {a} is not {b}", flush=True)


def numbers(dtype, shape):
    count = torch.Size(shape).numel()
    return (torch.arange(count).reshape(shape) % 7 + rank).to(dtype)


DTYPES = [torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.int8, torch.bfloat16, torch.float16]
REDUCTIONS = [dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT]


def check_reductions(dtype, shape):
    for op in REDUCTIONS:
        for async_op in (False, True):
            a, b = numbers(dtype, shape) % 3, numbers(dtype, shape) % 3
            works = [dist.all_reduce(a, op, async_op=async_op), dist.all_reduce(b, op, gloo, async_op)]
            for work in works if async_op else []:
                work.wait()
            same(f"all_reduce {dtype} {shape} {op}", a, b)
        a, b = numbers(dtype, shape) % 3, numbers(dtype, shape) % 3
        dist.reduce(a, 1, op)
        dist.reduce(b, 1, op, gloo)
        if rank == 1:
            same(f"reduce {dtype} {shape} {op}", a, b)


def check_parts(dtype, shape):
    a, b = numbers(dtype, shape), numbers(dtype, shape)
    dist.broadcast(a, size - 1)
    dist.broadcast(b, size - 1, gloo)
    same(f"broadcast {dtype} {shape}", a, b)
    ours, theirs = ([torch.empty_like(a) for _ in range(size)] for _ in range(2))
    dist.all_gather(ours, numbers(dtype, shape))
    dist.all_gather(theirs, numbers(dtype, shape), gloo)
    same(f"all_gather {dtype} {shape}", ours, theirs)
    dist.gather(numbers(dtype, shape), ours if rank == 0 else None, 0)
    dist.gather(numbers(dtype, shape), theirs if rank == 0 else None, 0, gloo)
    same(f"gather {dtype} {shape}", ours, theirs)
    dist.scatter(a, ours if rank == 1 else None, 1)
    dist.scatter(b, theirs if rank == 1 else None, 1, gloo)
    same(f"scatter {dtype} {shape}", a, b)


def check_single(dtype):
    x = torch.arange(4 * size).to(dtype) + rank
    for name, count in (("all_gather_into_tensor", 4 * size * size), ("reduce_scatter_tensor", 4), ("all_to_all_single", 4 * size)):
        a, b = torch.empty(count, dtype=dtype), torch.empty(count, dtype=dtype)
        getattr(dist, name)(a, x)
        getattr(dist, name)(b, x, group=gloo)
        same(f"{name} {dtype}", a, b)


def check_others():
    x = torch.arange(12.0).reshape(3, 4) + rank
    a, b = torch.empty(4, 3).t().copy_(x), torch.empty(4, 3).t().copy_(x)
    assert not a.is_contiguous()
    dist.all_reduce(a)
    dist.all_reduce(b, group=gloo)
    same("not contiguous", a, b)
    a = torch.complex(x, x)
    b = a.clone()
    dist.all_reduce(a)
    dist.all_reduce(b, group=gloo)
    same("complex", a, b)
    parts = [torch.empty(rank + 1) for _ in range(size)]
    dist.all_to_all(parts, [torch.full((i + 1,), float(rank)) for i in range(size)])
    assert all((p == i).all() for i, p in enumerate(parts))
    rows = torch.empty(size * (rank + 1), 2)
    dist.all_to_all_single(rows, torch.ones(sum(range(size + 1)), 2) * rank, [rank + 1] * size, [i + 1 for i in range(size)])
    assert (rows == torch.arange(size).repeat_interleave(rank + 1)[:, None]).all()
    own = torch.empty(3)
    dist.reduce_scatter(own, [torch.full((3,), float(i + rank)) for i in range(size)])
    assert (own == sum(rank + i for i in range(size))).all()
    dist.reduce_scatter(own, [torch.full((3,), float(i + rank)) for i in range(size)], dist._make_nccl_premul_sum(2.0))
    assert (own == 2 * sum(rank + i for i in range(size))).all()
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": i} for i in range(size)]
    scaled = torch.ones(2) * (rank + 1)
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(2.0))
    assert (scaled == size * (size + 1)).all()
    pair = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        # dlrun knows the group's ranks by these numbers.
        assert pair._get_backend(torch.device("cpu"))._job_ranks == [0, size - 1]
        x = torch.ones(3)
        dist.all_reduce(x, group=pair)
        assert (x == 2).all()


def check_messages():
    sent, got = torch.tensor([float(rank)]), torch.empty(1)
    messages = [dist.P2POp(dist.isend, sent, right), dist.P2POp(dist.irecv, got, left)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    assert got.item() == left
    if rank == 0:
        for _ in range(size - 1):
            dist.irecv(got).wait()
    else:
        dist.send(sent, 0)
    # What ends before an earlier operation does not wait for it.
    early = dist.irecv(got, left) if rank != 1 else None
    x = torch.ones(1000)
    dist.all_reduce(x, async_op=True).wait()
    if right != 1:
        dist.send(sent, right)
    if early is not None:
        early.wait()
    assert x[0] == size
    with dist._coalescing_manager(async_ops=True) as manager:
        several = [torch.ones(i + 1) for i in range(5)]
        for x in several:
            dist.all_reduce(x)
    manager.wait()
    assert all((x == size).all() for x in several)


def refused(text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Exception as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"{call} threw nothing, wanted '{text}'")


def check_works():
    """A Work tells what its future knows."""
    got = torch.empty(1)
    if rank == 0:
        work = dist.irecv(got, 1)
        assert not work.is_completed()
        dist.barrier()
        while not work.is_completed():
            pass
        assert work.is_success() and work.exception() is None
        assert {dist.recv(got) for _ in range(size - 1)} == set(range(1, size))
    else:
        dist.barrier()
        for _ in range(2 if rank == 1 else 1):
            dist.send(torch.ones(1), 0)
    # An error of an operation under way reaches wait(), the future and C++.
    part = dist.new_group(backend="dlrun", timeout=timedelta(milliseconds=100))
    if rank == 0:
        works = [dist.all_reduce(got, group=part, async_op=True) for _ in range(2)]
        refused("timed out", works[0].wait)
        refused("timed out", works[1].get_future().wait)
        assert works[0].is_completed() and not works[0].is_success() and "timed out" in str(works[0].exception())
        refused("timed out", dist.all_reduce, got, group=part)
    dist.barrier()


def check_lists():
    for dtypes in ([torch.float32], [torch.float32, torch.int64, torch.complex64]):
        for count in (1, 100, 100000):  # packed, and one by one
            ours, theirs = ([numbers(d, (i + count,)) for i in range(3) for d in dtypes] for _ in range(2))
            with dist._coalescing_manager(async_ops=True) as manager:
                for x in ours:
                    dist.all_reduce(x)
            manager.wait()
            for x in theirs:
                dist.all_reduce(x, group=gloo)
            same(f"list {dtypes} {count}", ours, theirs)
    given = [numbers(torch.float32, (4 * size,)) + i for i in range(3)]
    for name, elements in (("all_gather_into_tensor", 4 * size * size), ("reduce_scatter_tensor", 4)):
        ours, theirs = ([torch.empty(elements) for _ in given] for _ in range(2))
        with dist._coalescing_manager():
            for out, x in zip(ours, given):
                getattr(dist, name)(out, x)
        for out, x in zip(theirs, given):
            getattr(dist, name)(out, x, group=gloo)
        same(f"list of {name}", ours, theirs)


def check_groups():
    x = torch.ones(3)
    if HAS_BACKENDS:
        part = dist.split_group(split_ranks=[[0], list(range(1, size))])
        assert part.size() == (1 if rank == 0 else size - 1) and dist.get_rank(part) == max(rank - 1, 0)
        dist.all_reduce(x, group=part)
        assert (x == part.size()).all()
        if rank == 0:
            refused("rank 0 is in no list", dist.split_group, split_ranks=[[1]])
    elif hasattr(dist, "split_group"):  # PyTorch's words
        refused("No device associated with the default pg", dist.split_group, split_ranks=[list(range(size))])
    mesh = dist.device_mesh.init_device_mesh("cpu", (1, size), mesh_dim_names=("a", "b"))
    x = torch.ones(3)
    dist.all_reduce(x, group=mesh.get_group("b"))
    assert (x == size).all()
    own.monitored_barrier()
    objects = [{"rank": rank}]
    dist.broadcast_object_list(objects, 1)
    assert objects == [{"rank": 1}]
    mine = [None]
    dist.scatter_object_list(mine, list(range(size)) if rank == 0 else None, 0)
    assert mine == [rank]
    refused("sparse tensors", dist.all_reduce, torch.eye(3).to_sparse())
    refused("has no dtype", dist.all_reduce, torch.zeros(2, dtype=torch.float8_e5m2))


def check_arguments():
    """What Gloo refuses, too: lists of other lengths, and tensors of other sizes and dtypes."""
    # `own`: torch.distributed checks some by itself
    flat = lambda dtype=torch.float32, count=4: torch.ones(count, dtype=dtype)  # noqa: E731
    parts = lambda *counts: [flat(count=c) for c in counts]  # noqa: E731
    full, int8 = [4] * size, torch.int8
    for name, options in (("gather", dist.GatherOptions()), ("scatter", dist.ScatterOptions())):
        options.rootRank = rank
        side = "output" if name == "gather" else "input"
        for counts in (full[1:] + [3], full[1:] + [5]):
            call = getattr(dist, name)
            refused(f"{name}: {side} {size - 1} has {counts[-1]} elements, wanted 4", call, flat(), parts(*counts), rank)
        for counts in (full[1:], full + [4]):
            refused(f"{name}: {len(counts)} {side}s, wanted one for each of {size} ranks", getattr(dist, name), flat(), parts(*counts), rank)
        other = [flat(int8) for _ in range(size)]
        one, many = [flat()], [other]
        refused(f"{name}: {side} 0 is of torch.int8, wanted torch.float32", getattr(own, name), *((many, one) if name == "gather" else (one, many)), options)
    for name, side, call in (
        ("all_gather", "output", lambda p: dist.all_gather(p, flat())),
        ("reduce_scatter", "input", lambda p: dist.reduce_scatter(flat(), p)),
        ("all_gather_coalesced", "input 0's output", lambda p: dist.all_gather_coalesced([[x] for x in p], [flat()])),
    ):
        for count in (3, 5, 0):
            refused(f"{name}: {side} {size - 1} has {count} elements, wanted 4", call, parts(*full[1:], count))
        for counts in (full[1:], full + [4]):
            refused(f"{name}: {len(counts)} {side}s, wanted one for each of {size} ranks", call, parts(*counts))
    refused("all_gather_coalesced: 2 inputs and 1 outputs", dist.all_gather_coalesced, [parts(4)] * size, parts(4, 4))
    refused("all_gather: output 0 is of torch.int8", own.allgather, [[flat(int8)] * size], [flat()])
    refused("reduce_scatter: input 0 is of torch.int8", own.reduce_scatter, [flat()], [[flat(int8)] * size], dist.ReduceScatterOptions())

    def coalesced(call, *pairs):
        with dist._coalescing_manager():
            for pair in pairs:
                call(*pair)

    more = 4 * size
    for name, call, output, input in (
        ("all_gather", dist.all_gather_into_tensor, more, 4),
        ("reduce_scatter", dist.reduce_scatter_tensor, 4, more),
    ):
        wrong, held = ("output", output) if name == "all_gather" else ("input", input)
        for dtype in (int8, torch.int32, torch.float64):
            bad = flat(dtype, output), flat(count=input)
            refused(f"{name}: output is of {dtype}, wanted torch.float32", call, *bad)
            refused(f"{name}: output is of {dtype}, wanted torch.float32", coalesced, call, (flat(count=output), flat(count=input)), bad)
        for change in (-1, 1):
            sizes = {"output": output, "input": input, wrong: held + change}
            bad = flat(count=sizes["output"]), flat(count=sizes["input"])
            refused(f"{name}: {wrong} has {held + change} elements, wanted {held}", call, *bad)
            refused(f"{name}: {wrong} has {held + change} elements, wanted {held}", coalesced, call, bad, bad)
    for name, several in (("all_gather", own.all_gather_single_coalesced), ("reduce_scatter", own.reduce_scatter_single_coalesced)):
        refused(f"{name}: 2 inputs and 1 outputs", several, parts(more), parts(4, 4))
    refused("all_to_all: 2 inputs" if size != 2 else "all_to_all: 3 inputs", dist.all_to_all, parts(*full), parts(*[4] * (2 if size != 2 else 3)))
    refused(f"all_to_all: {size + 1} outputs", dist.all_to_all, parts(*full, 4), parts(*full))
    refused("all_to_all: output 0 is of torch.int8", own.alltoall, [flat(int8)] * size, parts(*full))
    uneven = [4 + (i == rank) for i in range(size)]
    refused("all_to_all: the rank has 4 elements for itself, and takes 5", dist.all_to_all, parts(*uneven), parts(*full))
    rows = flat(count=more)
    negative = [-1, 5] + full[2:]
    refused("split sizes must not be negative, and one of the input is -1", dist.all_to_all_single, rows, rows.clone(), full, negative)
    refused("split sizes must not be negative, and one of the output is -1", dist.all_to_all_single, rows, rows.clone(), negative, full)
    refused(f"split sizes of the input add to {more - 1}, wanted {more}", dist.all_to_all_single, rows, rows.clone(), full, [3] + full[1:])
    refused(f"split sizes of the output, wanted one for each of {size} ranks", own.alltoall_base, rows, rows.clone(), full + [0], full)
    refused("output is of torch.int8, wanted torch.float32", own.alltoall_base, flat(int8, more), rows, [], [])
    refused("has 1 elements, wanted a multiple of", dist.all_to_all_single, flat(count=1), flat(count=1))
    refused("send: tag must be nonnegative, and is -1", dist.send, flat(), right, tag=-1)
    refused("recv: tag must be nonnegative, and is -1", dist.recv, flat(), left, tag=-1)
    refused("recv: tag must be nonnegative, and is -1", dist.recv, flat(), tag=-1)
    # Another shape of as many elements is none of it, and all of it has broken nothing.
    shaped = torch.empty(size, 2, 2)
    dist.all_gather_into_tensor(shaped, flat() * rank)
    dist.all_gather(list(shaped), flat() * rank)
    assert all((x == i).all() for i, x in enumerate(shaped))


MORE_DTYPES = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e5m2, torch.float8_e4m3fn, torch.complex32, torch.bool]


def check_dtypes():
    """Elements that only move may be of any dtype; unsigned ones can be reduced, too."""
    for dtype in MORE_DTYPES:
        mine = lambda r=rank: (torch.arange(4) + r).float().to(dtype)  # noqa: E731
        equal = lambda a, r: torch.equal(a.view(torch.uint8), mine(r).view(torch.uint8))  # noqa: E731
        is_all = lambda parts: all(equal(p, r) for r, p in enumerate(parts))  # noqa: E731
        x = mine()
        dist.broadcast(x, 1)
        assert equal(x, 1), dtype
        everything = [torch.empty_like(x) for _ in range(size)]
        dist.all_gather(everything, mine())
        assert is_all(everything), dtype
        flat = torch.empty(4 * size, dtype=dtype)
        dist.all_gather_into_tensor(flat, mine())
        assert is_all(flat.split(4)), dtype
        several = [torch.empty(4 * size, dtype=dtype) for _ in range(2)]
        with dist._coalescing_manager():
            for out in several:
                dist.all_gather_into_tensor(out, mine())
        assert all(is_all(out.split(4)) for out in several), dtype
        gathered = [torch.empty_like(x) for _ in range(size)] if rank == 0 else None
        dist.gather(mine(), gathered, 0)
        assert gathered is None or is_all(gathered), dtype
        dist.scatter(x, [mine(r) for r in range(size)] if rank == 0 else None, 0)
        assert equal(x, rank), dtype
        dist.all_to_all(everything, [mine() for _ in range(size)])
        assert is_all(everything), dtype
        dist.all_to_all_single(flat, torch.cat([mine()] * size))
        assert is_all(flat.split(4)), dtype
        work = dist.isend(mine(), right)
        dist.recv(x, left)
        work.wait()
        assert equal(x, left), dtype
    for dtype in MORE_DTYPES[:3]:
        x = torch.full((3,), rank + 1).to(dtype)
        dist.all_reduce(x)
        assert x.tolist() == [size * (size + 1) // 2] * 3, dtype
        dist.all_reduce(x := torch.full((3,), rank + 1).to(dtype), dist.ReduceOp.MAX)
        assert x.tolist() == [size] * 3, dtype
    for call in (dist.all_reduce, lambda x: dist.reduce(x, 0), lambda x: dist.reduce_scatter(x, [x] * size)):
        refused("has no dtype torch.float8_e5m2", call, torch.zeros(2, dtype=torch.float8_e5m2))


def check_memory():
    pieces = []
    for step in range(40):
        # Ranks free at different times.
        pieces = pieces[-(rank + 1) :]
        pieces.append(own.allocate_tensor(1000 * (step % 7 + 1), dtype=torch.float32, device=torch.device("cpu")))
        pieces[-1].fill_(rank + step)
        dist.all_reduce(pieces[-1])
        assert (pieces[-1] == sum(range(size)) + size * step).all(), step
    # More than it holds is ordinary memory.
    many = [own.allocate_tensor(7000, dtype=torch.float32, device=torch.device("cpu")).fill_(1) for _ in range(200)]
    for x in many:
        dist.all_reduce(x)
    assert all((x == size).all() for x in many)


def check_views():
    """Tensors that are not contiguous. Gloo refuses them as messages."""
    def view(x):
        return torch.empty(x.shape[1], x.shape[0]).t().copy_(x)

    x = torch.arange(8.0 * size).reshape(4, 2 * size) + rank
    for call in (
        lambda x, group: dist.all_reduce(x, group=group),
        lambda x, group: dist.broadcast(x, 1, group=group),
        lambda x, group: dist.reduce(x, 0, group=group) if rank == 0 else dist.reduce(x.clone(), 0, group=group),
        lambda x, group: dist.all_gather([torch.empty(1, 2 * size) for _ in range(size)], x[:1], group=group),
    ):
        a, b = view(x), view(x)
        assert not a.is_contiguous()
        call(a, None)
        call(b, gloo)
        same("not contiguous", a, b)


def losses(group, **how):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), process_group=group, **how)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(rank)
    found = []
    for step in range(20):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 20)).pow(2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


for dtype in DTYPES:
    for shape in ((), (1,), (5, 3), (1000,), (0,)):
        check_reductions(dtype, shape)
        check_parts(dtype, shape)
    check_single(dtype)
for check in (check_others, check_messages, check_works, check_lists, check_groups, check_arguments, check_dtypes, check_memory, check_views):
    check()
dist.barrier()
farthest = 0.0
for how in ({}, {"bucket_cap_mb": 0.01}, {"find_unused_parameters": True}, {"static_graph": True}, {"gradient_as_bucket_view": True}):
    pairs = zip(losses(None, **how), losses(gloo, **how))
    farthest = max(farthest, *(abs(a - b) for a, b in pairs))
print(f"rank {rank}: {different} differ; DDP's losses by {farthest:.1e}", flush=True)
dist.destroy_process_group()
assert different == 0 and farthest < 1e-6
