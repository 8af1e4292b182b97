#!/usr/bin/env python3
"""Times bench_train and other programs that take the same flags and print the same JSON, in turns.

    python3 examples/bench_train/compare.py [--rounds 7] [--ours COMMAND] --peer "[NAME=]COMMAND" ... -- cnn --batch 64 --threads 2
    python3 examples/bench_train/compare.py --torch "python torch_train.py" -- resnet18 --threads 2

Each round runs one after the other, so that whatever else the machine does meets all of them. Prints the commands, the machine,
the lowest and the middle median of the rounds, the peak memory, and the ratios: how many times as long a peer's step takes. --peer may be
given several times. --torch stands for one peer for each of PyTorch's modes in --torch-modes: a program in Python that takes these flags;
`best` is the fastest of them in f32, `best-bf16` the fastest in bf16. --keep writes one JSON object a run.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def machine():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else 'unknown CPU'}, {len(os.sched_getaffinity(0))} CPUs"


def run(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise SystemExit(f"compare.py: {command[0]}: {error.strerror}")
    lines = [line[line.index("{"):] for line in done.stdout.splitlines() if "{" in line]  # behind dlrun's prefix of a rank
    if done.returncode != 0 or not lines:
        raise SystemExit(f"compare.py: {shlex.join(command)} ended with {done.returncode}" + ("" if lines else " and printed no figures"))
    return json.loads(lines[0])


def named(peers):
    """{name: command}; a peer without a name is called "peer", as the only one may be."""
    commands = {}
    for peer in peers:
        name, separator, command = peer.partition("=")
        if not separator or not re.fullmatch(r"[A-Za-z][\w-]*", name):
            name, command = "peer", peer
        if name in commands or name == "ours":
            raise SystemExit(f"compare.py: two programs are called {name}: --peer NAME=COMMAND gives each its own")
        commands[name] = shlex.split(command)
    return commands


# PyTorch's modes, and what the program is told for them.
MODES = {"eager": [],
         "channels-last": ["--channels-last"],
         "compile": ["--mode", "compile"],
         "compile-last": ["--mode", "compile", "--channels-last"],
         "bf16": ["--dtype", "bf16"],
         "bf16-last": ["--dtype", "bf16", "--channels-last"],
         "bf16-compile": ["--dtype", "bf16", "--mode", "compile"]}


def of_torch(command, modes):
    """{"torch-MODE": command}"""
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        raise SystemExit(f"compare.py: --torch-modes: {unknown[0]} is none of {', '.join(MODES)}")
    return {f"torch-{mode}": shlex.split(command) + MODES[mode] for mode in modes}


def best_of(times, of):
    """The fastest of PyTorch's modes: {"best": (name, ms), "best-bf16": (name, ms)}, as far as they ran."""
    torch = {name: of(each) for name, each in times.items() if name.startswith("torch-")}
    kinds = {"best": [name for name in torch if "bf16" not in name], "best-bf16": [name for name in torch if "bf16" in name]}
    return {kind: min((torch[name], name) for name in names)[::-1] for kind, names in kinds.items() if names}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--ours", default=str(ROOT / "build/release/bin/bench_train"))
    p.add_argument("--peer", default=[], action="append", metavar="[NAME=]COMMAND")
    p.add_argument("--torch", metavar="COMMAND", help="PyTorch's program, once for each mode")
    p.add_argument("--torch-modes", default="eager,channels-last,compile,bf16-last", metavar="LIST", help=f"of {', '.join(MODES)}")
    p.add_argument("--keep", metavar="FILE.jsonl")
    p.add_argument("flags", nargs="+")
    a = p.parse_args()
    if a.rounds < 1:
        p.error("--rounds is less than 1")
    if not a.peer and not a.torch:
        p.error("there is no --peer and no --torch")
    commands = {"ours": shlex.split(a.ours), **named(a.peer), **(of_torch(a.torch, a.torch_modes.split(",")) if a.torch else {})}
    print(machine())
    for name, command in commands.items():
        command += a.flags + ["--json"]
        print(f"{name}: {shlex.join(command)}")
    times = {name: [] for name in commands}
    peaks = {name: 0 for name in commands}
    loads = []
    with open(a.keep or os.devnull, "w") as kept:
        for number in range(1, a.rounds + 1):
            loads.append(os.getloadavg()[0])
            for name, command in commands.items():
                report = run(command)
                times[name].append(report["median_ms"])
                peaks[name] = max(peaks[name], report.get("peak_mib", 0))
                print(json.dumps({"round": number, "program": name, **report}), file=kept, flush=True)
    print(f"{a.rounds} rounds; load before a round {min(loads):.1f} to {max(loads):.1f}")
    for what, of in (("lowest", min), ("middle", statistics.median)):
        ours = of(times["ours"])
        others = (f"{name} {of(each):.4g} ms, ratio {of(each) / ours:.3f}" for name, each in times.items() if name != "ours")
        print(f"{what}: ours {ours:.4g} ms; {'; '.join(others)}")
        for kind, (name, best) in best_of(times, of).items():
            print(f"{what}: {kind} is {name}, {best:.4g} ms, ratio {best / ours:.3f}")
    print("peak MiB: " + "; ".join(f"{name} {peak:.0f}" for name, peak in peaks.items()))


if __name__ == "__main__":
    main()
