"""Compares training over the backend dlrun with training over Gloo: DDP, FSDP2, DTensor, pipelining, checkpoints. By hand, with
PyTorch (2.4 or newer) in an environment:

    dlrun -n 2 tests/torch/training_check.py
    dlrun -n 4 tests/torch/training_check.py
"""

import shutil
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import dlrun.torch  # needed before PyTorch 2.14
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

try:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
except ImportError:  # PyTorch 2.4, whose FSDP2 needs CUDA's streams
    from torch.distributed._tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    fully_shard = None

torch.set_num_threads(1)
dist.init_process_group("dlrun", timeout=timedelta(seconds=60))
gloo = dist.new_group(backend="gloo")
ours = dist.new_group(backend="dlrun")
rank, size = dist.get_rank(), dist.get_world_size()
STEPS = 12
average = torch.zeros(1)
dist.reduce_scatter_tensor(average, torch.ones(size), dist.ReduceOp.AVG, group=gloo)
GLOO_AVERAGES = average.item() == 1  # in PyTorch 2.4 and 2.8 it adds
farthest = 0.0
equal = 0


def compare(what, train, within=1e-6):
    """Losses of train(group) over both backends."""
    global farthest, equal
    a, b = train(ours), train(gloo)
    assert len(a) == len(b) > 0
    apart = max(abs(x - y) for x, y in zip(a, b))
    farthest = max(farthest, apart) if within == 1e-6 else farthest
    equal += a == b
    if rank == 0:
        print(f"{what}: {'equal' if a == b else f'{apart:.1e} apart'}", flush=True)
    assert apart < within, (what, a, b)


def network(*, unused=False):
    torch.manual_seed(0)
    sizes = (20, 64, 64, 32, 3)
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(i, o), torch.nn.Tanh()]
    model = torch.nn.Sequential(*layers)
    if unused:
        model.register_module("unused", torch.nn.Linear(5, 5))
        model.forward = lambda x: torch.nn.Sequential(*layers)(x)
    return model


def steps(model, parameters=None, count=STEPS, sync=None):
    optimizer = torch.optim.Adam(parameters or model.parameters(), 0.01)
    torch.manual_seed(rank + 1)
    found = []
    for step in range(count):
        x = torch.randn(8, 20)
        loss = model(x).pow(2).mean()
        if sync is None or step % 3 == 2:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        else:
            with sync():
                model(x).pow(2).mean().backward()
        found.append(loss.item())
    return found


def ddp(unused=False, hook=None, syncs=True, **how):
    def train(group):
        model = DistributedDataParallel(network(unused=unused), process_group=group, **how)
        if hook is not None:
            hook(model, group)
        return steps(model, sync=None if syncs else model.no_sync)

    return train


def power_sgd(model, group):
    state = powerSGD_hook.PowerSGDState(process_group=group, matrix_approximation_rank=2, start_powerSGD_iter=3)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def uneven(group):
    model = DistributedDataParallel(network(), process_group=group)
    with Join([model]):
        return steps(model, count=STEPS + 2 * rank)


def averaged(model, group):
    """The sharded model, which divides sums itself if Gloo does not."""
    for module in model.modules() if group is gloo and not GLOO_AVERAGES else ():
        if hasattr(module, "set_force_sum_reduction_for_comms"):
            module.set_force_sum_reduction_for_comms(True)
    return model


def sharded(*, allocate=False, precision=None, mesh_shape=None):
    def train(group):
        if mesh_shape is None:
            mesh = DeviceMesh.from_group(group, "cpu")
        else:
            mesh = DeviceMesh("cpu", torch.arange(size).reshape(mesh_shape), mesh_dim_names=("replicate", "shard"))
        model = network()
        policy = MixedPrecisionPolicy() if precision is None else MixedPrecisionPolicy(param_dtype=precision, reduce_dtype=precision)
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        averaged(model, group)
        if allocate and group is ours:
            for module in model.modules():
                if hasattr(module, "set_allocate_memory_from_process_group_for_comm"):
                    module.set_allocate_memory_from_process_group_for_comm(True)
            found = steps(model)
            assert ours._get_backend(torch.device("cpu"))._tensors._arenas
            return found
        return steps(model)

    return train


def tensors(group):
    mesh = DeviceMesh.from_group(group, "cpu")
    torch.manual_seed(0)
    a, b = torch.randn(4 * size, 6), torch.randn(6, 3 * size)
    x, y = distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(b, mesh, [Shard(1)])
    z = x.redistribute(mesh, [Replicate()]) @ y
    moved = z.redistribute(mesh, [Shard(0)]).redistribute(mesh, [Shard(1)])
    partial = DTensor.from_local(torch.ones(size, 2) * (rank + 1), mesh, [Partial()])
    return [z.sum().full_tensor().item(), moved.full_tensor().norm().item(), partial.redistribute(mesh, [Shard(0)]).to_local().sum().item()]


def tensor_parallel(group):
    mesh = DeviceMesh.from_group(group, "cpu")
    model = network()
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    torch.manual_seed(0)
    return steps(model)


def pipeline(group):
    model = network()
    stage_layers = [model[i] for i in range(len(model)) if i * size // len(model) == rank]
    module = torch.nn.Sequential(*stage_layers)
    first = next(i for i in range(len(model)) if i * size // len(model) == rank)
    # PyTorch 2.4 asks for a piece of a batch.
    given = {"input_args": (model[:first](torch.randn(2, 20)).detach(),)} if fully_shard is None else {}
    stage = PipelineStage(module, rank, size, torch.device("cpu"), group=group, **given)
    schedule = ScheduleGPipe(stage, 4, loss_fn=lambda out, target: (out - target).pow(2).mean())
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    torch.manual_seed(3)
    found = []
    for _ in range(STEPS):
        x, target = torch.randn(8, 20), torch.randn(8, 3)
        losses = []
        optimizer.zero_grad()
        if rank == 0 and size == 1:
            schedule.step(x, target=target, losses=losses)
        elif rank == 0:
            schedule.step(x)
        elif rank == size - 1:
            schedule.step(target=target, losses=losses)
        else:
            schedule.step()
        optimizer.step()
        found.append(float(sum(l.item() for l in losses)))
    return found


def saved(group):
    """A checkpoint of a sharded model, loaded into another one."""
    mesh = DeviceMesh.from_group(group, "cpu")
    model = averaged(fully_shard(network(), mesh=mesh), group)
    steps(model)
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0, group=group)
    checkpoint.save(model.state_dict(), checkpoint_id=folder[0], process_group=group)
    other = network()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other = averaged(fully_shard(other, mesh=mesh), group)
    state = other.state_dict()
    checkpoint.load(state, checkpoint_id=folder[0], process_group=group)
    other.load_state_dict(state)
    dist.barrier(group)
    if rank == 0:
        shutil.rmtree(folder[0])
    for a, b in zip(model.parameters(), other.parameters()):
        assert torch.equal(a.to_local(), b.to_local())
    return steps(other)


for cap in (25, 0.01):
    for view in (False, True):
        compare(f"DDP, buckets of {cap} MB, view {view}", ddp(bucket_cap_mb=cap, gradient_as_bucket_view=view))
compare("DDP, unused parameters", ddp(unused=True, find_unused_parameters=True))
compare("DDP, static graph", ddp(static_graph=True))
compare("DDP, no_sync", ddp(syncs=False))
compare("DDP, all_reduce hook", ddp(hook=lambda m, g: m.register_comm_hook(g, default_hooks.allreduce_hook)))
# Their sums round after each addition, and Gloo adds in another order.
compare("DDP, bf16 hook", ddp(hook=lambda m, g: m.register_comm_hook(g, default_hooks.bf16_compress_hook)), 1e-3)
compare("DDP, f16 hook", ddp(hook=lambda m, g: m.register_comm_hook(g, default_hooks.fp16_compress_hook)), 1e-3)
compare("DDP, PowerSGD", ddp(hook=power_sgd))
compare("DDP, uneven inputs", uneven)
if fully_shard is not None:
    compare("FSDP2", sharded())
    compare("FSDP2, in symmetric memory", sharded(allocate=True))
compare("DTensor", tensors)
if 64 % size == 0:
    compare("tensor parallel", tensor_parallel)
compare("pipeline", pipeline)
if fully_shard is not None:
    compare("checkpoint", saved)
if rank == 0:
    print(f"all within {farthest:.1e}, {equal} equal bit by bit", flush=True)
dist.destroy_process_group()
