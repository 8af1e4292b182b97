#!/usr/bin/env python3
"""What a machine with a GPU is for: tests, training, failures and times, in order of importance, under limits, into files.

    python3 tests/gpu/figures.py                       # all parts, of a build in build/release
    ./gpu-figures ops train --budget 540               # in a bundle made with `./dev bundle --tests`
    ./gpu-figures bench compile --peer "python3 torch_train.py" --out OUT
    ./gpu-figures summary OUT/results.jsonl ... >page.md   # a page of several calls

Parts:
  machine    the GPU, its driver, and whether dlrun finds CUDA's libraries
  ops        every operation against the CPU, and the device layer: all test programs; what fails is run again alone
  train      the CNN on digits: the CPU's accuracy against that of the GPU, eager, captured, in mixed precision
  ranks      1, 2 and 4 ranks on one GPU, over NCCL and through the host: the same losses, and collectives whose results are right
  kill       a rank is killed: how soon the others say so, and whether anything stays behind
  nccl       our all_reduce against a bare ncclAllReduce in the same process
  bench      a training step of ours, eager and captured, and of the peer, eager and channels-last
  compile    the peer's compiled modes for the same rows
  profile    kernels of our eager steps by ncu: what limits a step, and its share of the device's peak
  sanitizer  compute-sanitizer (memcheck, racecheck, initcheck) over the tests of operations

What fails stops nothing; the exit code is 1 where something failed. OUT gets results.jsonl, log.txt and summary.md; calls with
the same OUT add to them. The peer takes bench_train's flags and prints its JSON. Needs: python3.
"""
import argparse
import os
import pathlib
import sys

import parts
import steps
import summary
from runner import Session

PARTS = {"machine": parts.machine, "ops": parts.ops, "train": parts.train, "ranks": parts.ranks, "kill": parts.kill,
         "nccl": parts.nccl, "bench": steps.bench, "compile": steps.compiled, "profile": steps.profile, "sanitizer": parts.sanitizer}


def main():
    here = pathlib.Path(__file__).resolve().parent
    in_bundle = (here.parent / "bin/dlrun").exists()
    root = here.parent if in_bundle else here.parents[1] / "build/release"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS) + " (all)")
    p.add_argument("--root", type=pathlib.Path, default=root, help="folder with bin/ and tests/")
    p.add_argument("--out", default="gpu-figures", help="folder for what is found")
    p.add_argument("--device", default="cuda", help="cpu tries the program itself out")
    p.add_argument("--budget", type=float, default=3600, metavar="SECONDS", help="of all parts together; what is left out is said (3600)")
    p.add_argument("--quick", action="store_true", help="few steps and sizes")
    p.add_argument("--ranks", default="1,2,4", help="numbers of ranks that share the GPU (1,2,4)")
    p.add_argument("--peer", help="command of another training program, such as PyTorch's torch_train.py")
    p.add_argument("--peer-collectives", help="command that takes --op, -b, -e, -f, --backend and --json; run where there are two GPUs")
    p.add_argument("--rows", default="", help="only rows of bench and compile whose names contain this, such as cnn-64 or tf32")
    p.add_argument("--rounds", type=int, default=1, help="of bench, in turns (1)")
    if len(sys.argv) > 1 and sys.argv[1] == "summary":
        try:
            print(summary.page(sys.argv[2:]), end="")
        except OSError as error:
            p.error(f"{error.filename}: {error.strerror}")
        return 0
    a = p.parse_args()
    unknown = [name for name in a.parts if name not in PARTS]
    if unknown:
        p.error(f"no part is called {unknown[0]}; there are {', '.join(PARTS)}")
    a.bin, a.tests = a.root / "bin", a.root / "tests"
    if not (a.bin / "dlrun").exists():
        p.error(f"there is no {a.bin / 'dlrun'}; build dlrun, or name its folder with --root")
    a.data = (a.root if in_bundle else here.parents[1])  # the folder in which tests look for files of the sources
    os.environ.pop("DLRUN_NCCL_SHARED_GPU", None)
    session = Session(a.out, a.budget)
    parts.find_libraries(session, a)
    for name in a.parts or PARTS:
        try:
            PARTS[name](session, a)
        except Exception as error:  # a mistake in one part must not cost the others
            session.note(name, "the part itself", "failed", why=f"{type(error).__name__}: {error}")
    session.close()
    results = os.path.join(a.out, "results.jsonl")
    text = summary.page([results])
    pathlib.Path(a.out, "summary.md").write_text(text)
    print(text)
    return 1 if session.failed else 0


if __name__ == "__main__":
    sys.exit(main())
