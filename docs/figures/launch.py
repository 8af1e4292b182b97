#!/usr/bin/env python3
"""Times the start and end of N x /bin/true by several launchers, in turns, and writes one JSON object a launch.

    docs/figures/launch.py --ranks 2 --rounds 9 --keep launch.jsonl dlrun="dlrun --nproc-per-node {n} /bin/true" NAME="..."

{n} in a command becomes the number of ranks. The first line of the file has the machine, the date and the command.
"""
import argparse
import datetime
import json
import os
import shlex
import statistics
import subprocess
import sys
import time


def machine():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else 'unknown CPU'}, {len(os.sched_getaffinity(0))} CPUs, Linux {os.uname().release}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ranks", type=int, action="append", required=True)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--keep", required=True, metavar="FILE.jsonl")
    p.add_argument("launchers", nargs="+", metavar="NAME=COMMAND")
    a = p.parse_args()
    launchers = dict(each.split("=", 1) for each in a.launchers)
    found = {}
    with open(a.keep, "w") as kept:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        print(json.dumps({"machine": machine(), "date": now, "command": ["docs/figures/launch.py", *sys.argv[1:]]}), file=kept)
        for number in range(1, a.rounds + 1):
            for ranks in a.ranks:
                for name, command in launchers.items():
                    words = shlex.split(command.replace("{n}", str(ranks)))
                    load = os.getloadavg()[0]
                    start = time.perf_counter()
                    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
                    took = 1e3 * (time.perf_counter() - start)
                    if done.returncode:
                        sys.exit(f"launch.py: {command} ended with {done.returncode}\n{done.stderr}")
                    row = {"round": number, "name": name, "ranks": ranks, "ms": round(took, 2), "load": load}
                    print(json.dumps(row), file=kept, flush=True)
                    found.setdefault((ranks, name), []).append(took)
    for (ranks, name), times in sorted(found.items()):
        ratio = statistics.median(times) / statistics.median(found[ranks, next(iter(launchers))])
        print(f"{ranks} ranks, {name}: {statistics.median(times):.1f} ms ({min(times):.1f} .. {max(times):.1f}), {ratio:.1f} x")


if __name__ == "__main__":
    main()
