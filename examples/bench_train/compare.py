#!/usr/bin/env python3
"""Times bench_train and another program that takes the same flags and prints the same JSON, in turns.

    python3 examples/bench_train/compare.py [--rounds 7] [--ours PROGRAM] --peer "COMMAND" -- cnn --batch 64 --threads 2

Each round runs one after the other, so that whatever else the machine does meets both. Prints both commands, the machine,
the lowest and the middle median of the rounds, and the ratios: how many times as long the peer's step takes.
"""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def machine():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else 'unknown CPU'}, {len(os.sched_getaffinity(0))} CPUs"


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    line = next(line for line in done.stdout.splitlines() if "{" in line)
    return json.loads(line[line.index("{"):])["median_ms"]  # behind dlrun's prefix of a rank


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--ours", default=str(ROOT / "build/release/bin/bench_train"))
    p.add_argument("--peer", required=True)
    p.add_argument("flags", nargs="+")
    a = p.parse_args()
    commands = {"ours": shlex.split(a.ours) + a.flags + ["--json"], "peer": shlex.split(a.peer) + a.flags + ["--json"]}
    print(machine())
    for name, command in commands.items():
        print(f"{name}: {shlex.join(command)}")
    times = {name: [] for name in commands}
    loads = []
    for _ in range(a.rounds):
        loads.append(os.getloadavg()[0])
        for name, command in commands.items():
            times[name].append(run(command))
    print(f"{a.rounds} rounds; load before a round {min(loads):.1f} to {max(loads):.1f}")
    for what, of in (("lowest", min), ("middle", statistics.median)):
        ours, peer = of(times["ours"]), of(times["peer"])
        print(f"{what}: ours {ours:.4g} ms, peer {peer:.4g} ms, ratio {peer / ours:.2f}")


if __name__ == "__main__":
    main()
