#!/usr/bin/env python3
"""Training steps of PyTorch, timed as bench_train times dlrun's, for figures.py. Needs: torch.

    python3 torch_steps.py cnn --batch 64 --device cuda --json : cnn --batch 64 --device cuda --dtype bf16 --json

Takes bench_train's flags, and several rows with ":" between them, as loading PyTorch takes longer than a row. Prints a JSON object a
row; what is wrong with one row is in its object, and the others are run all the same.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    """body(x) + shortcut(x), then `after`."""

    def __init__(self, body, shortcut, after):
        super().__init__()
        self.body, self.shortcut, self.after = body, shortcut, after

    def forward(self, x):
        return self.after(self.body(x) + self.shortcut(x))


class Densely(nn.Module):
    """Layers that each get what all before them gave (DenseNet)."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


class Excite(nn.Module):
    def __init__(self, width, squeezed):
        super().__init__()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, squeezed, 1), nn.SiLU(inplace=True), nn.Conv2d(squeezed, width, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.gate(x)


def conv(cin, cout, k, stride=1, groups=1, act=None):
    return nn.Sequential(nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(cout), *([act(inplace=True)] if act else []))


def mlp():
    return nn.Sequential(nn.Linear(50, 30), nn.ReLU(), nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 3))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))


def conv18():
    layers, width = [nn.Conv2d(3, 64, 3, padding=1), nn.ReLU()], 64
    for following in (64, 128, 256, 512):
        for _ in range(4):
            layers += [nn.Conv2d(width, following, 3, 1 if width == following else 2, 1), nn.ReLU()]
            width = following
    return nn.Sequential(*layers, nn.MaxPool2d(4), nn.Flatten(), nn.Linear(512, 10))


def resnet18():
    layers, width = [conv(3, 64, 3, act=nn.ReLU)], 64
    for i, following in enumerate((64, 128, 256, 512)):
        for stride in (1 if i == 0 else 2, 1):
            shortcut = nn.Identity() if stride == 1 and width == following else conv(width, following, 1, stride)
            layers.append(Residual(nn.Sequential(conv(width, following, 3, stride, act=nn.ReLU), conv(following, following, 3)), shortcut, nn.ReLU(inplace=True)))
            width = following
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def densenet121():
    layers, width = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for i, many in enumerate((6, 12, 24, 16)):
        layers.append(Densely(nn.Sequential(nn.BatchNorm2d(width + 32 * j), nn.ReLU(inplace=True), nn.Conv2d(width + 32 * j, 128, 1, bias=False),
                                            nn.BatchNorm2d(128), nn.ReLU(inplace=True), nn.Conv2d(128, 32, 3, padding=1, bias=False)) for j in range(many)))
        width += 32 * many
        layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        if i < 3:
            layers += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def efficientnet_b0():
    layers = [conv(3, 32, 3, 2, act=nn.SiLU)]
    for expand, k, stride, cin, cout, many in ((1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3), (6, 5, 1, 80, 112, 3),
                                               (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1)):
        for j in range(many):
            width = cin if j == 0 else cout
            mid, step = width * expand, stride if j == 0 else 1
            block = nn.Sequential(*([conv(width, mid, 1, act=nn.SiLU)] if expand > 1 else []), conv(mid, mid, k, step, mid, act=nn.SiLU),
                                  Excite(mid, max(1, width // 4)), conv(mid, cout, 1))
            layers.append(Residual(block, nn.Identity(), nn.Identity()) if step == 1 and width == cout else block)
    return nn.Sequential(*layers, conv(320, 1280, 1, act=nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 10))


# name: the network, the shape of a sample, classes, samples a step
WORKS = {"mlp": (mlp, (50,), 3, 8), "cnn": (cnn, (1, 28, 28), 10, 64), "conv18": (conv18, (3, 32, 32), 10, 256), "resnet18": (resnet18, (3, 32, 32), 10, 128),
         "densenet121": (densenet121, (3, 64, 64), 10, 32), "efficientnet-b0": (efficientnet_b0, (3, 64, 64), 10, 32)}


def parse(arguments):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("work", choices=WORKS)
    p.add_argument("--batch", type=int)
    p.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0))))
    p.add_argument("--device", default="cpu")
    p.add_argument("--mode", choices=("eager", "compile", "reduce-overhead", "max-autotune"), default="eager")
    p.add_argument("--dtype", choices=("f32", "bf16", "f16"), default="f32")
    p.add_argument("--matmul", choices=("ieee", "tf32"), default="ieee")
    p.add_argument("--conv", choices=("ieee", "tf32"), default="tf32")
    p.add_argument("--benchmark", action="store_true")
    p.add_argument("--channels-last", action="store_true")
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--per-sync", type=int, default=1)
    p.add_argument("--seed", type=int, default=123)
    p.add_argument("--json", action="store_true", help="always so")
    return p.parse_args(arguments)


def peak_mib(on_gpu):
    if on_gpu:
        return torch.cuda.max_memory_allocated() / 2**20
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


def time_row(a):
    make, shape, classes, batch = WORKS[a.work]
    batch, on_gpu = a.batch or batch, a.device.startswith("cuda")
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    if on_gpu:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = a.matmul == "tf32", a.conv == "tf32"
        torch.backends.cudnn.benchmark = a.benchmark
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    model = make().to(a.device)
    x, y = torch.randn(batch, *shape).to(a.device), torch.randint(classes, (batch,)).to(a.device)
    if a.channels_last and x.dim() == 4:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    low = {"f32": None, "bf16": torch.bfloat16, "f16": torch.float16}[a.dtype]
    scaler = torch.cuda.amp.GradScaler(enabled=on_gpu and low is torch.float16)
    run = model
    if a.mode != "eager":
        torch._dynamo.reset()  # a row before this one must not count as a recompilation
        run = torch.compile(model, mode="default" if a.mode == "compile" else a.mode)

    def step():
        sgd.zero_grad()
        with torch.autocast("cuda" if on_gpu else "cpu", dtype=low or torch.bfloat16, enabled=low is not None):
            loss = F.cross_entropy(run(x), y)
        scaler.scale(loss).backward()
        scaler.step(sgd)
        scaler.update()

    def wait():
        if on_gpu:
            torch.cuda.synchronize()

    for _ in range(a.warmup):
        step()
    wait()
    times = []
    for _ in range(a.steps):
        begin = time.perf_counter()
        for _ in range(a.per_sync):
            step()
        wait()
        times.append((time.perf_counter() - begin) * 1e3 / a.per_sync)
    times.sort()
    median = statistics.median(times)
    return {"work": a.work, "parameters": sum(p.numel() for p in model.parameters()), "batch": batch, "threads": a.threads, "mode": a.mode, "dtype": a.dtype,
            "device": a.device, "channels_last": a.channels_last, "median_ms": median, "p10_ms": times[len(times) // 10], "p90_ms": times[len(times) * 9 // 10],
            "samples_per_s": batch / median * 1e3, "peak_mib": peak_mib(on_gpu), "torch": torch.__version__}


def main(arguments):
    rows, failed = [[]], False
    for argument in arguments:
        if argument == ":":
            rows.append([])
        else:
            rows[-1].append(argument)
    for index, row in enumerate([parse(row) for row in rows]):
        try:
            result = time_row(row)
        except Exception as error:
            result, failed = {"work": row.work, "error": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"}, True
        print(json.dumps({"row": index, **result}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
