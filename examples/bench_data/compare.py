#!/usr/bin/env python3
"""Times the transforms of the book's chapter 5 in dlrun (bench_data) and in torchvision in turns, on the same 256 float tensors.

    python3 examples/bench_data/compare.py [--turns 7] [--clock wall|processor] [--program PATH]

Prints a row of a Markdown table for each transform: torchvision's median time over ours, and both times an image. One thread.
Needs torch and torchvision.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = 256


def time_torchvision(clock):
    """Does for torchvision what main.cc does. torchvision's ToTensor takes arrays [height, width, channels] of bytes, ours tensors
    [channels, height, width]; both give floats in the latter order. In the middle of the seven, ours returns its floats."""
    import torch
    import torchvision.transforms as tv
    torch.set_num_threads(1)
    now = time.perf_counter if clock == "wall" else time.process_time
    rows = {"Resize(255)": tv.Resize(255, antialias=True), "CenterCrop(224)": tv.CenterCrop(224),
            "RandomHorizontalFlip(0.5)": tv.RandomHorizontalFlip(0.5), "RandomRotation(20)": tv.RandomRotation(20),
            "GaussianBlur(3)": tv.GaussianBlur(3), "ToTensor()": lambda x: x,
            "Normalize": tv.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])}

    def run(name, transform, images):
        series = []
        for _ in range(3):
            start = now()
            made = [transform(image) for image in images]
            series.append(now() - start)
        print(f"{name}|{min(series):.9f}", flush=True)
        return made

    first = (((torch.arange(IMAGES * 3072) * 37 + 11) % 256).float() / 255).view(IMAGES, 3, 32, 32)
    images = list(first)
    for name, transform in rows.items():
        if name == "ToTensor()":
            run("ToTensor() of u8", tv.ToTensor(), [(image * 255).byte().permute(1, 2, 0).contiguous().numpy() for image in images])
        else:
            images = run(name, transform, images)
    run("all seven", tv.Compose(list(rows.values())), list(first))


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {name: float(seconds) for name, seconds in (line.split("|") for line in done.stdout.splitlines())}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--turns", type=int, default=7)
    p.add_argument("--clock", choices=("wall", "processor"), default="wall")
    p.add_argument("--program", default=str(ROOT / "build/release/bin/bench_data"))
    p.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.torch:
        return time_torchvision(a.clock)
    ours, theirs = [], []
    for _ in range(a.turns):
        ours.append(run([a.program, "--clock", a.clock]))
        theirs.append(run([sys.executable, __file__, "--torch", "--clock", a.clock]))
    print(f"{a.turns} turns, {a.clock} clock, load {os.getloadavg()[0]:.1f}\n")
    print("| transform | ratio | dlrun | torchvision |\n|---|---|---|---|")
    for name in ours[0]:
        mine, other = (statistics.median(turn[name] for turn in turns) / IMAGES * 1e6 for turns in (ours, theirs))
        print(f"| {name} | {other / mine:.2f} | {mine:.3g} us | {other:.3g} us |")


if __name__ == "__main__":
    main()
