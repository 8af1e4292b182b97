#!/usr/bin/env python3
"""Makes the pictures in docs/figures and README's table of times.

    docs/figures/figures.py [--record PROGRAMS] [--check]

The plot and the table come from the rows in docs/benchmarks/data, the terminals from the transcripts beside this file. --record runs the sessions anew,
with dlrun and train_cnn of the folder PROGRAMS, and keeps their transcripts. --check changes nothing: it fails if a picture, the table
or a number in README's first paragraph is not what the rows and transcripts give. `./dev figures` builds and records.
"""
import argparse
import json
import pathlib
import statistics
import sys
import xml.dom.minidom

sys.dont_write_bytecode = True
import chart
import terminal

FIGURES = pathlib.Path(__file__).resolve().parent
ROOT = FIGURES.parents[1]
DATA = ROOT / "docs/benchmarks/data"
README = ROOT / "README.md"
TITLES = {"demo": "Two ranks train a network on handwritten digits", "failure": "A rank is killed, and dlrun names it as the first cause"}
LARGEST = 200_000  # bytes of a picture
BEGIN, END = "<!-- times: written by ./dev figures -->", "<!-- times: end -->"


def steps():
    """{(step, threads): row} of the steps on CPUs."""
    lines = [line.split("\t") for line in (DATA / "training.tsv").read_text().splitlines() if not line.startswith("#")]
    rows = [dict(zip(lines[0], line)) for line in lines[1:]]
    return {(row["step"], row["threads"]): row for row in rows}


def gpu_steps():
    """{step: {program: median in ms}} of the steps on a GPU."""
    found = {}
    for line in (DATA / "gpu-steps.jsonl").read_text().splitlines()[1:]:
        row = json.loads(line)
        found.setdefault(row["name"], {})[row["program"]] = row["median_ms"]
    return found


def launches():
    """{(ranks, launcher): median in ms}"""
    found = {}
    for line in (DATA / "launch.jsonl").read_text().splitlines()[1:]:
        row = json.loads(line)
        found.setdefault((row["ranks"], row["name"]), []).append(row["ms"])
    return {key: statistics.median(times) for key, times in found.items()}


def time_text(ms):
    value, unit = (ms / 1000, "s") if ms >= 1000 else (ms, "ms")
    return f"{value:#.{3 if value >= 1 else 2}g}".rstrip(".") + f" {unit}"


def ratio_text(ratio):
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"


def table():
    cpu, gpu, launch = steps(), gpu_steps(), launches()
    rows = []

    def add(what, ours, other, which, ratio=None):
        rows.append(f"| {what} | {time_text(ours)} | {time_text(other)} | {which} | {ratio_text(ratio or other / ours)} |")

    def add_cpu(what, step, threads, which):
        row = cpu[step, threads]
        add(what, float(row["dlrun_ms"]), float(row["pytorch_ms"]), which, float(row["ratio"]))

    def add_gpu(what, step):
        times = gpu[step]
        peer = min(time for program, time in times.items() if program.startswith("peer"))
        add(what, times["ours eager"], peer, "PyTorch 2.11")

    add_cpu("CNN, 64 images, 1 thread", "cnn-64", "1", "PyTorch 2.15")
    add_cpu("CNN, 64 images, 2 threads", "cnn-64", "2", "PyTorch 2.15")
    add_cpu("CNN, 2 ranks of 32 images", "ddp-32x2", "1", "PyTorch 2.15, Gloo")
    add_cpu("MLP, 8 samples, 1 thread", "mlp-8", "1", "PyTorch 2.15")
    add_gpu("CNN, 64 images, H200", "cnn-64 f32 latency")
    add_gpu("CNN, 1,024 images, H200", "cnn-1024 f32 latency")
    for name, which in (("MPICH", "MPICH, `mpiexec`"), ("Open MPI", "Open MPI, `mpirun`"), ("torchrun", "`torchrun`")):
        add("launch of 2 ranks", launch[2, "dlrun"], launch[2, name], which)
    return "\n".join(["| training step, or launch | dlrun | peer | which peer | ratio |", "|---|--:|--:|---|--:|", *rows])


def claims():
    """What README's first paragraph says with these numbers."""
    launch = launches()
    return [f"launches two ranks in {launch[2, 'dlrun']:.0f} ms", f"(`mpirun` takes {launch[2, 'Open MPI']:.0f} ms, `torchrun` {launch[2, 'torchrun'] / 1000:.0f} s)",
            f"{steps()['cnn-64', '1']['ratio']} times as fast as PyTorch"]


def readme():
    """README with the table that the rows give."""
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"figures.py: README.md has no {BEGIN} with {END} behind it")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def made():
    """{path: text} of everything that this program writes, transcripts aside."""
    files = {FIGURES / f"{name}.svg": terminal.draw((FIGURES / f"{name}.txt").read_text(), title) for name, title in TITLES.items()}
    files[FIGURES / "all_reduce.svg"] = chart.draw(DATA)
    files[README] = readme()
    return files


def problems(files):
    for path, text in files.items():
        name = path.relative_to(ROOT)
        if not path.exists() or path.read_text() != text:
            yield f"{name} is not what the rows and transcripts give: run docs/figures/figures.py"
        if path.suffix == ".svg":
            xml.dom.minidom.parseString(text)
            if len(text.encode()) > LARGEST:
                yield f"{name} has more than {LARGEST} bytes"
            if "http" in text.replace('xmlns="http://www.w3.org/2000/svg"', "") or "<script" in text:
                yield f"{name} needs something from outside"
    first = " ".join(files[README].split("\n\n")[1].split())
    yield from (f"README.md's first paragraph does not say {claim!r}, as the rows do" for claim in claims() if claim not in first)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--record", metavar="PROGRAMS", type=pathlib.Path)
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    if a.record:
        for name in TITLES:
            (FIGURES / f"{name}.txt").write_text(terminal.record(name, a.record.resolve()))
    files = made()
    if not a.check:
        for path, text in files.items():
            path.write_text(text)
    found = list(problems(files))
    for problem in found:
        print(problem)
    if not a.check:
        print("\n".join(str(path.relative_to(ROOT)) for path in files))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
