#!/usr/bin/env python3
"""What a machine with a GPU is for: tests, training, failures and times, in order of importance, under limits, into files.

    ./gpu-figures ten                                  # all that matters, in at most 10 minutes
    ./gpu-figures four                                 # the most telling part of it, in at most 4 minutes
    ./gpu-figures ops train --budget 540               # these parts
    ./gpu-figures bench compile --peer "python3 torch_train.py" --out OUT
    ./gpu-figures summary OUT/results.jsonl ... >page.md   # a page of several calls
    python3 tests/gpu/figures.py ten                   # of a build in build/release; `./dev bundle --tests` makes gpu-figures

Parts:
  machine    the GPU, its driver, and whether dlrun finds CUDA's libraries
  ops        every operation against the CPU, and the device layer: all test programs; what fails is run again alone
  networks   CNN, ResNet, DenseNet, EfficientNet and a GPT in f32, TF32, f16 and bf16, eager and captured: losses against the CPU's
  train      the CNN on digits: the CPU's accuracy against that of the GPU, eager, captured, in mixed precision
  ranks      1, 2 and 4 ranks on one GPU, over NCCL and through the host: the same losses, and collectives whose results are right
  kill       a rank is killed: how soon the others say so, and whether anything stays behind
  nccl       our all_reduce against a bare ncclAllReduce in the same process
  bench      a training step of ours, eager and captured, and of the peer, eager and channels-last
  compile    the peer's compiled modes for the same rows
  profile    kernels of our eager steps by ncu: what limits a step, and its share of the device's peak
  sanitizer  compute-sanitizer (memcheck, racecheck, initcheck) over the tests of operations

`ten` and `four` are machine to bench, `ten` also compile. Each part has a share of the time, and what it leaves goes to the next ones.
At its limit a part is ended with all that it started. The limit of all together is hard: the page is written within it.

What fails stops nothing; the exit code is 1 if something failed. OUT gets results.jsonl, log.txt and summary.md while parts run;
calls with the same OUT add to them. The peer is PyTorch if a python3 has it. Another one takes bench_train's flags and prints its JSON.
Needs: python3, 3.9 or newer.
"""
import argparse
import os
import pathlib
import shlex
import sys
import time

import guard
import parts
import steps
import summary
import training

# In order of importance, with seconds of `ten`; other budgets have the same shares.
PARTS = {"machine": (parts.machine, 12), "ops": (parts.ops, 120), "networks": (training.networks, 75), "train": (training.train, 45),
         "ranks": (training.ranks, 75), "kill": (parts.kill, 40), "nccl": (parts.nccl, 25), "bench": (steps.bench, 130), "compile": (steps.compiled, 45),
         "profile": (steps.profile, 60), "sanitizer": (parts.sanitizer, 100)}
SETUP = 40
TEN = list(PARTS)[:9]
PLANS = {"ten": (TEN, 585), "four": (TEN[:-1], 230)}  # a machine that is lent for 10 minutes ends what is not over then


def schedule(names, begin, seconds):
    """[(part, function, until)]: a part that ends early leaves its time to those after it."""
    shares = [("setup", parts.setup, SETUP), *((name, *PARTS[name]) for name in names)]
    total, sofar, found = sum(share for *_, share in shares), 0, []
    for name, function, share in shares:
        sofar += share
        found.append((name, function, begin + seconds * sofar / total))
    return found


def main():
    begin = time.monotonic()
    here = pathlib.Path(__file__).resolve().parent
    in_bundle = (here.parent / "bin/dlrun").exists()
    root = here.parent if in_bundle else here.parents[1] / "build/release"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*", metavar="PART", help="ten or four alone, or of " + ", ".join(PARTS) + " (all)")
    p.add_argument("--root", type=pathlib.Path, default=root, help="folder with bin/ and tests/")
    p.add_argument("--out", default="gpu-figures", help="folder for what is found")
    p.add_argument("--device", default="cuda", help="cpu tries the program itself out")
    p.add_argument("--budget", type=float, metavar="SECONDS", help="of all together, page included; what is left out is said (ten 585, four 230, else 3600)")
    p.add_argument("--quick", action="store_true", help="few steps and sizes, to try the program itself out: times are not judged")
    p.add_argument("--ranks", help="numbers of ranks that share the GPU (1,2,4; with --quick 1,2)")
    p.add_argument("--peer", help="command of another training program in PyTorch's place")
    p.add_argument("--peer-collectives", help="command that takes --op, -b, -e, -f, --backend and --json; run where there are two GPUs")
    p.add_argument("--rows", default="", help="only rows of bench and compile whose names contain this, such as cnn-64 or tf32")
    p.add_argument("--rounds", type=int, default=1, help="of bench, in turns (1)")
    if len(sys.argv) > 1 and sys.argv[1] == "summary":
        try:
            print(summary.page(summary.read(sys.argv[2:])), end="")
        except OSError as error:
            p.error(f"{error.filename}: {error.strerror}")
        return 0
    a = p.parse_args()
    planned = a.parts[0] if len(a.parts) == 1 and a.parts[0] in PLANS else None
    names, budget = PLANS[planned] if planned else (a.parts or list(PARTS), 3600)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        p.error(f"{unknown[0]} stands alone" if unknown[0] in PLANS else f"no part is called {unknown[0]}; there are {', '.join(PARTS)}, and ten and four")
    budget = budget if a.budget is None else a.budget
    a.ranks = a.ranks or ("1,2" if a.quick else "1,2,4")
    a.bin, a.tests = a.root / "bin", a.root / "tests"
    if not (a.bin / "dlrun").exists():
        p.error(f"there is no {a.bin / 'dlrun'}; build dlrun, or name its folder with --root")
    a.data = (a.root if in_bundle else here.parents[1])  # the folder in which tests look for files of the sources
    os.environ.pop("DLRUN_NCCL_SHARED_GPU", None)
    try:
        os.makedirs(a.out, exist_ok=True)
        keeper = guard.Keeper(a.out, reserve=min(10.0, budget / 10))
    except OSError as error:
        p.error(f"--out {a.out}: {error.strerror}")
    return work(keeper, a, schedule(names, begin, budget - keeper.reserve), budget)


def work(keeper, a, planned, budget):
    stop = guard.Stop()
    a.found = keeper.found
    keeper.hear({"part": summary.CALL, "name": " ".join(a.parts) or "all", "status": "ok", "at": round(time.time()), "budget": budget,
                 "command": shlex.join(["gpu-figures", *sys.argv[1:]])})
    for name, function, until in planned:
        guard.run_part(keeper, stop, name, function, a, until)
        if "LD_LIBRARY_PATH" in keeper.found:
            os.environ["LD_LIBRARY_PATH"] = keeper.found["LD_LIBRARY_PATH"]
        text = keeper.page()
    keeper.say("\n" + text)
    if stop.signal is not None:
        return 128 + stop.signal
    return 1 if keeper.failed or keeper.errors else 0


if __name__ == "__main__":
    sys.exit(main())
