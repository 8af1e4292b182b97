#!/usr/bin/env python3
"""Times the transforms of the book's chapter 5 in dlrun (bench_data) and in torchvision in turns, on the same 256 float tensors.

    python3 examples/bench_data/compare.py [--turns 7] [--clock wall|processor] [--program PATH]
    python3 examples/bench_data/compare.py --folder IMAGES [--workers 1,2]

Prints a row of a Markdown table for each transform: torchvision's median time over ours, and both times an image. One thread.
With --folder, a row for each number of workers: the images a second of a DataLoader over image files, with all transforms. A folder that
is not there gets 512 JPEG files of 224x224 pixels. Needs torch, torchvision and Pillow.
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


def transforms():
    import torchvision.transforms as tv
    return {"Resize(255)": tv.Resize(255, antialias=True), "CenterCrop(224)": tv.CenterCrop(224),
            "RandomHorizontalFlip(0.5)": tv.RandomHorizontalFlip(0.5), "RandomRotation(20)": tv.RandomRotation(20),
            "GaussianBlur(3)": tv.GaussianBlur(3), "ToTensor()": tv.ToTensor(),
            "Normalize": tv.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])}


def make_images(folder):
    """Coarse shapes with fine noise, so that files have a photograph's size."""
    import numpy
    from PIL import Image
    random = numpy.random.default_rng(1)
    for number in range(512):
        coarse = Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=numpy.uint8)).resize((224, 224), Image.BICUBIC)
        pixels = numpy.asarray(coarse) + random.normal(0, 8, (224, 224, 3))
        path = folder / f"class{number % 2}" / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(path, quality=90)


def load_torchvision(folder, workers, passes=3):
    """Does for torchvision what main.cc does with --folder; its images are Pillow's, as in the book."""
    import torch
    import torchvision
    torch.set_num_threads(1)
    images = torchvision.datasets.ImageFolder(folder, torchvision.transforms.Compose(list(transforms().values())))
    loader = torch.utils.data.DataLoader(images, batch_size=32, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    series = []
    for _ in range(passes):
        start = time.perf_counter()
        count = sum(len(x) for x, _ in loader)
        series.append(time.perf_counter() - start)
    assert count == len(images)
    print(f"{len(images) / min(series):.3f}")


def time_torchvision(clock):
    """Does for torchvision what main.cc does. torchvision's ToTensor takes arrays [height, width, channels] of bytes, ours tensors
    [channels, height, width]; both give floats in the latter order. In the middle of the seven, ours returns its floats."""
    import torch
    torch.set_num_threads(1)
    now = time.perf_counter if clock == "wall" else time.process_time
    rows = transforms()

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
            run("ToTensor() of u8", transform, [(image * 255).byte().permute(1, 2, 0).contiguous().numpy() for image in images])
        else:
            images = run(name, transform, images)

    def all_seven(image):  # floats already
        for name, transform in rows.items():
            image = image if name == "ToTensor()" else transform(image)
        return image

    run("all seven", all_seven, list(first))


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {name: float(seconds) for name, seconds in (line.split("|") for line in done.stdout.splitlines())}


def compare_loaders(a):
    if not a.folder.exists():
        make_images(a.folder)
    print(f"{a.turns} turns, load {os.getloadavg()[0]:.1f}\n")
    print("| workers | ratio | of the best passes | dlrun | torchvision |\n|---|---|---|---|---|")
    for workers in a.workers.split(","):
        flags = ["--folder", str(a.folder), "--workers", workers]
        commands = ([a.program, *flags], [sys.executable, __file__, "--torch", *flags])
        series = [[float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout) for command in commands]
                  for _ in range(a.turns)]
        (mine, best), (other, others_best) = ((statistics.median(each), max(each)) for each in zip(*series))
        print(f"| {workers} | {mine / other:.2f} | {best / others_best:.2f} | {mine:.0f} images/s | {other:.0f} images/s |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--turns", type=int, default=7)
    p.add_argument("--clock", choices=("wall", "processor"), default="wall")
    p.add_argument("--program", default=str(ROOT / "build/release/bin/bench_data"))
    p.add_argument("--folder", type=pathlib.Path)
    p.add_argument("--workers", default="1,2")
    p.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.torch:
        return time_torchvision(a.clock) if a.folder is None else load_torchvision(a.folder, int(a.workers))
    if a.folder is not None:
        return compare_loaders(a)
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
