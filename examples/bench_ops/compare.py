#!/usr/bin/env python3
"""Times single operations of dlrun (bench_ops) and of PyTorch in turns, and prints PyTorch's time over ours.

    python3 examples/bench_ops/compare.py [--turns 7] [--threads 1] [--clock wall|processor] [--only TEXT] [--program PATH]
                                          [--json FILE] [--below 0.95]

Prints a Markdown table with a row for each operation: the ratio of the medians of all turns for 1e3, 1e5 and 1e7 elements, and our
median time; then the machine and the versions, and the cells that are below a ratio. --json writes both programs' times of all turns
as well. Progress goes to stderr, so that `compare.py > table.md` writes the table. Needs torch.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = (1_000, 100_000, 10_000_000)


def torch_rows(n):
    """The operations of main.cc, on the same numbers."""
    import torch
    import torch.nn.functional as F
    v = ((torch.arange(n) * 37 + 11) % 6400).float() / 800 - 3
    m = v.view({1_000: 25, 100_000: 250, 10_000_000: 2_500}[n], -1)
    narrow, half, leaf, other = v.view(-1, 10), v.bfloat16(), m.clone().requires_grad_(), m.clone()
    images = v.view(2, 4, -1).permute(0, 2, 1)
    mixed = (torch.arange(n) * 2654435761 % 4294967296).float().div(2147483648).sub(1).view_as(m)

    def backward(f):
        f(leaf, 1).backward(m)
        leaf.grad = None

    rows = {
        "sum": lambda: v.sum(), "sum(0)": lambda: m.sum(0), "sum(1)": lambda: m.sum(1), "sum(0) of 10": lambda: narrow.sum(0),
        "sum(1) of 10": lambda: narrow.sum(1), "mean": lambda: v.mean(), "mean(0)": lambda: m.mean(0), "mean(1)": lambda: m.mean(1),
        "prod": lambda: v.prod(), "max": lambda: v.max(), "max(0)": lambda: m.max(0), "max(1)": lambda: m.max(1), "argmax": lambda: v.argmax(),
        "argmax(1)": lambda: m.argmax(1), "amax(0)": lambda: m.amax(0), "amax(1)": lambda: m.amax(1), "var(0)": lambda: m.var(0),
        "var(1)": lambda: m.var(1), "std": lambda: v.std(), "norm": lambda: torch.linalg.vector_norm(v),
        "norm(1)": lambda: torch.linalg.vector_norm(m, dim=1), "logsumexp(1)": lambda: m.logsumexp(1), "any(1)": lambda: m.any(1),
        "cumsum(0)": lambda: m.cumsum(0), "cumsum(1)": lambda: m.cumsum(1), "sort(1)": lambda: m.sort(1),
        "sort(1), mixed": lambda: mixed.sort(1), "topk(10)": lambda: m.topk(10, 1),
        "softmax(0)": lambda: m.softmax(0), "softmax(1)": lambda: m.softmax(1), "softmax(1) of 10": lambda: narrow.softmax(1),
        "log_softmax(0)": lambda: m.log_softmax(0), "log_softmax(1)": lambda: m.log_softmax(1), "softmax, backward": lambda: backward(F.softmax),
        "log_softmax, backward": lambda: backward(F.log_softmax), "transposed copy": lambda: m.t().contiguous(),
        "channels-last copy": lambda: images.contiguous(), "cat(0)": lambda: torch.cat([m, other], 0), "cat(-1)": lambda: torch.cat([m, other], -1),
        "to(bf16)": lambda: v.to(torch.bfloat16), "to(f32) of bf16": lambda: half.to(torch.float32),
    }
    rows.update(elementwise(m, "") | elementwise(half.view_as(m), " bf16") | normalisations(v, m) | products_and_indices(v, m))
    return rows


def elementwise(m, suffix):
    import torch
    n, into, positive = m + 0.25, m.clone(), m.abs() + 0.5
    rows = {
        "add": lambda: m.add(n), "mul": lambda: m.mul(n), "div": lambda: m.div(n), "add a number": lambda: m.add(0.5),
        "add_ with alpha": lambda: into.add_(m, alpha=0.5), "maximum": lambda: m.maximum(n), "lt": lambda: m.lt(n),
        "relu": lambda: m.relu(), "sigmoid": lambda: m.sigmoid(), "tanh": lambda: m.tanh(), "silu": lambda: torch.nn.functional.silu(m),
        "gelu": lambda: torch.nn.functional.gelu(m), "exp": lambda: m.exp(), "log": lambda: positive.log(), "sqrt": lambda: positive.sqrt(),
    }
    return {name + suffix: call for name, call in rows.items()}


def normalisations(v, m):
    import torch
    import torch.nn.functional as F
    x = v.view({1_000: (5, 8, 5, 5), 100_000: (10, 16, 25, 25), 10_000_000: (25, 64, 50, 125)}[v.numel()])
    last, channels, width = x.contiguous(memory_format=torch.channels_last), x.shape[1], m.shape[1:]
    scale, shift, mean, var = torch.ones(channels), torch.zeros(channels), torch.zeros(channels), torch.ones(channels)
    w, b = torch.ones(width), torch.zeros(width)

    def backward(call, data, *others):
        leaves = [t.clone().requires_grad_() for t in (data, *others)]

        def run():
            call(*leaves).backward(data)
            for leaf in leaves:
                leaf.grad = None
        return run

    def trained(t, scales, shifts):
        return F.batch_norm(t, mean, var, scales, shifts, True)

    return {
        "layer_norm": lambda: F.layer_norm(m, width, w, b), "layer_norm, backward": backward(lambda t: F.layer_norm(t, width, w, b), m),
        "rms_norm": lambda: F.rms_norm(m, width, w), "group_norm": lambda: F.group_norm(x, 4, scale, shift),
        "group_norm, backward": backward(lambda t: F.group_norm(t, 4, scale, shift), x),
        "batch_norm, eval": lambda: F.batch_norm(x, mean, var, scale, shift), "batch_norm, backward": backward(trained, x, scale, shift),
        "batch_norm, eval, channels-last": lambda: F.batch_norm(last, mean, var, scale, shift),
        "batch_norm, backward, channels-last": backward(trained, last, scale, shift),
    }


def products_and_indices(v, m):
    import torch
    t, mask, into = m.t().contiguous(), m > 0, m.clone()
    places = (torch.arange(v.numel()) * 7919 % m.shape[1]).view_as(m)
    rows, columns = torch.arange(m.shape[0]) * 7 % m.shape[0], torch.arange(m.shape[1]) * 7 % m.shape[1]

    def step(optimizer, **options):
        p = v.clone().requires_grad_()
        p.grad = v * 0.01
        return optimizer([p], lr=1e-4, **options).step

    return {
        "matmul": lambda: m.matmul(t), "mv": lambda: m.matmul(v[:m.shape[1]]), "gather(1)": lambda: m.gather(1, places),
        "scatter(1)": lambda: m.scatter(1, places, m), "scatter_add_(1)": lambda: into.scatter_add_(1, places, m),
        "index_select(0)": lambda: m.index_select(0, rows), "index_select(1)": lambda: m.index_select(1, columns),
        "embedding": lambda: torch.nn.functional.embedding(rows, m), "where": lambda: torch.where(mask, m, into),
        "SGD, momentum": step(torch.optim.SGD, momentum=0.9), "Adam": step(torch.optim.Adam), "AdamW": step(torch.optim.AdamW),
    }


def time_torch(a):
    """What main.cc does, for PyTorch."""
    import torch
    torch.set_num_threads(a.threads)
    now = time.perf_counter if a.clock == "wall" else time.process_time
    for n in SIZES:
        for name, call in torch_rows(n).items():
            if a.only not in name:
                continue
            call()
            start = now()
            call()
            calls = min(20_000, max(1, int(0.006 / max(1e-7, now() - start))))
            series = []
            for _ in range(5):
                start = now()
                for _ in range(calls):
                    call()
                series.append((now() - start) / calls)
            print(f"{name}|{n}|{min(series):.9f}", flush=True)


class Progress:
    """On stderr: which program of which turn runs, and how many of its rows are done. A file gets a line for each program's end."""

    def __init__(self, turns):
        self.turns, self.total, self.start = turns, 0, time.monotonic()

    def show(self, turn, program, done, is_end=False):
        self.total = max(self.total, done) if is_end else self.total
        if not (is_end or sys.stderr.isatty()):
            return
        of_total = f" of {self.total}" if self.total else ""
        text = f"turn {turn + 1} of {self.turns}, {program}: {done}{of_total} rows, {time.monotonic() - self.start:.0f} s"
        first, last = ("\r", "") if sys.stderr.isatty() else ("", "\n")
        print(f"{first}{text:<70}", end=last, file=sys.stderr, flush=True)

    def end(self):
        if sys.stderr.isatty():
            print(file=sys.stderr)


def run(command, show):
    """Seconds of each row and size that a program prints as it measures them."""
    times = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        for line in program.stdout:
            name, n, seconds = line.rstrip("\n").split("|")
            times[name, int(n)] = float(seconds)
            show(len(times))
    if program.returncode != 0:
        sys.exit(f"compare.py: {command[0]} ended with {program.returncode}")
    return times


def processor():
    """The processor's name, as Linux knows it."""
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def torch_version():
    import importlib.metadata
    return importlib.metadata.version("torch")


def print_table(names, ours, theirs, below):
    """Rows of Markdown, and after them the cells below a ratio."""
    low = []
    print("| operation | 1e3 | 1e5 | 1e7 |\n|---|---|---|---|")
    for name in names:
        cells = []
        for n in SIZES:
            mine = statistics.median(turn[name, n] for turn in ours)
            ratio = statistics.median(turn[name, n] for turn in theirs) / mine
            cells.append(f"{ratio:.2f} ({mine * 1e6:.3g} us)")
            if ratio < below:
                low.append(f"{name} of {n:.0e}: {ratio:.2f}".replace("e+0", "e"))
        print(f"| {name} | {' | '.join(cells)} |")
    return low


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--turns", type=int, default=7)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--clock", choices=("wall", "processor"), default="wall")
    p.add_argument("--only", default="")
    p.add_argument("--program", default=str(ROOT / "build/release/bin/bench_ops"))
    p.add_argument("--json", metavar="FILE", help="where to write all times")
    p.add_argument("--below", type=float, default=0.95, help="cells under this ratio are listed")
    p.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.torch:
        return time_torch(a)
    flags = ["--threads", str(a.threads), "--clock", a.clock] + (["--only", a.only] if a.only else [])
    progress, ours, theirs = Progress(a.turns), [], []
    for turn in range(a.turns):
        for program, command, times in (("dlrun", [a.program], ours), ("PyTorch", [sys.executable, __file__, "--torch"], theirs)):
            times.append(run(command + flags, lambda done: progress.show(turn, program, done)))
            progress.show(turn, program, len(times[-1]), is_end=True)
    progress.end()
    machine = (f"{datetime.date.today()}, {processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; PyTorch {torch_version()}; "
               f"medians of {a.turns} turns, {a.threads} threads, {a.clock} clock")
    low = print_table(dict.fromkeys(name for name, _ in ours[0]), ours, theirs, a.below)
    print(f"\n{machine}\n\nBelow {a.below}: {'; '.join(low) or 'none'}")
    if a.json:
        rows = [{"operation": name, "elements": n, "dlrun": [turn[name, n] for turn in ours], "pytorch": [turn[name, n] for turn in theirs]}
                for name, n in ours[0]]
        pathlib.Path(a.json).write_text(json.dumps({"machine": machine, "seconds": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
