#!/usr/bin/env python3
"""Opens a file that dlrun saved with Python's safetensors and prints what is in it, one line a tensor:

    python tests/parity/check_safetensors.py model.safetensors [expected.safetensors]

With a second file, every tensor must be bitwise the same in both; exit 1 otherwise. Needs: torch, safetensors.
"""
import sys

import torch
from safetensors import safe_open


def tensors(path):
    with safe_open(path, framework="pt") as f:
        return {name: f.get_tensor(name) for name in f.keys()}


def main():
    got = tensors(sys.argv[1])
    for name, t in got.items():
        print(f"{name}: {t.dtype} {list(t.shape)}, sum {t.double().sum().item():.9g}")
    if len(sys.argv) < 3:
        return 0
    want = tensors(sys.argv[2])
    bad = sorted(got.keys() ^ want.keys())
    bad += [n for n in got.keys() & want.keys() if got[n].dtype != want[n].dtype or got[n].shape != want[n].shape
            or not torch.equal(got[n].reshape(-1).view(torch.uint8), want[n].reshape(-1).view(torch.uint8))]
    print(f"differs: {', '.join(bad)}" if bad else f"all {len(got)} tensors are bitwise equal")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
