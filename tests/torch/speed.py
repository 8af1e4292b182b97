"""Measures the backend dlrun next to Gloo, in turns. By hand, with PyTorch in an environment, on a quiet machine:

    dlrun -n 2 tests/torch/speed.py all_reduce 16            # f32 elements: 64 B
    dlrun -n 4 tests/torch/speed.py all_reduce 6250000       # 25 MB
    dlrun -n 2 tests/torch/speed.py fsdp                     # a GPT of 12 M parameters
    dlrun -n 2 tests/torch/speed.py ddp                      # the book's CNN, next to steps without an all_reduce

Times are the medians and, in brackets, the minima of the rounds, on rank 0.
"""

import statistics
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

ROUNDS = 9

torch.set_num_threads(1)
dist.init_process_group("dlrun", timeout=timedelta(seconds=120))
gloo = dist.new_group(backend="gloo")
ours = dist.new_group(backend="dlrun")


def measure(ways, repeats):
    """`ways`: name to (group, function). Seconds of one call, by name; the ways take turns."""
    found = {name: [] for name in ways}
    for _, call in ways.values():
        call()
    for _ in range(ROUNDS):
        for name, (group, call) in ways.items():
            call()
            dist.barrier(group)
            begin = time.perf_counter()
            for _ in range(repeats):
                call()
            found[name].append((time.perf_counter() - begin) / repeats)
    return found


def report(found, base):
    if dist.get_rank() != 0:
        return
    middle = {name: statistics.median(times) for name, times in found.items()}
    for name, times in found.items():
        ratio = f"{middle[base] / middle[name]:.2f} ({min(found[base]) / min(times):.2f})"
        print(f"{name:28} {middle[name] * 1e6:11.1f} ({min(times) * 1e6:.1f}) us; {base} takes {ratio} of it", flush=True)


def all_reduce(count):
    x = torch.ones(count)
    backend = dist.get_backend_impl(ours, torch.device("cpu"))
    shared = backend.allocate_tensor(count, dtype=torch.float32, device=torch.device("cpu")).fill_(1)
    ways = {
        "dlrun": (ours, lambda: dist.all_reduce(x, group=ours)),
        "dlrun, symmetric memory": (ours, lambda: dist.all_reduce(shared, group=ours)),
        "dlrun, async_op": (ours, lambda: dist.all_reduce(x, group=ours, async_op=True).wait()),
        "Gloo": (gloo, lambda: dist.all_reduce(x, group=gloo)),
    }
    report(measure(ways, max(2, min(300, 20000000 // (count + 1)))), "Gloo")


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.attention(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, vocabulary=4096, width=384, layers=6, heads=6, length=64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def fsdp():
    ways = {}
    tokens = torch.randint(4096, (1, 64))
    for name, group, shares in (("dlrun", ours, False), ("dlrun, symmetric memory", ours, True), ("Gloo", gloo, False)):
        torch.manual_seed(0)
        model = GPT()
        count = sum(p.numel() for p in model.parameters())
        mesh = DeviceMesh.from_group(group, "cpu")
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        for module in model.modules() if shares else ():
            if isinstance(module, FSDPModule):
                module.set_allocate_memory_from_process_group_for_comm(True)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)

        def step(model=model, optimizer=optimizer):
            model(tokens).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        ways[name] = (group, step)
    if dist.get_rank() == 0:
        print(f"{count} parameters")
    report(measure(ways, 3), "Gloo")


def cnn():
    """examples/book/cnn.cc, for digits: 1,630,090 parameters."""
    def layer(given, out):
        return nn.Sequential(nn.Conv2d(given, out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))

    return nn.Sequential(layer(1, 32), layer(32, 64), nn.Flatten(), nn.Linear(3136, 512), nn.Linear(512, 10))


def ddp():
    ways = {}
    x, y = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    for name, group in (("dlrun", ours), ("Gloo", gloo)):
        torch.manual_seed(0)
        model = DistributedDataParallel(cnn(), process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

        def step(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

        def alone(model=model, step=step):
            with model.no_sync():
                step()

        ways[f"{name}, no all_reduce"] = (group, alone)
        ways[name] = (group, step)
    found = measure(ways, 2)
    report(found, "dlrun, no all_reduce")
    for name in ("dlrun", "Gloo"):
        ratios = [a / b for a, b in zip(found[name], found[f"{name}, no all_reduce"])]
        if dist.get_rank() == 0:
            print(f"{name}: a step takes {statistics.median(ratios):.3f} (least {min(ratios):.3f}) of one without an all_reduce")


parts = {"all_reduce": lambda: all_reduce(int(sys.argv[2])), "fsdp": fsdp, "ddp": ddp}
parts[sys.argv[1]]()
dist.destroy_process_group()
