#!/usr/bin/env python3
"""Makes the arrays that the parity tests compare with, from PyTorch. The results are committed; this is run again only
when a test needs another array, in an environment with torch, numpy and safetensors:

    python tests/parity/make_arrays.py [topic...]

Each topic is one function below and one file arrays/<topic>.safetensors. Written with torch 2.15 on a CPU with AVX2 that
is not Intel's: on those PyTorch draws bernoulli_(p) from MKL instead of its own generator.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.utils.data import DistributedSampler, RandomSampler

ARRAYS = pathlib.Path(__file__).resolve().parent / "arrays"


def seeded(seed):
    g = torch.Generator()
    g.manual_seed(seed)
    return g


def random():
    """core/random: every stream from a fresh generator with seed 123, unless its name says otherwise."""
    a = {}
    a["uniform_f32"] = torch.empty(700).uniform_(-0.3, 0.3, generator=seeded(123))
    a["uniform_f64"] = torch.empty(700, dtype=torch.float64).uniform_(-0.3, 0.3, generator=seeded(123))
    a["rand_f32"] = torch.rand(50, generator=seeded(123))
    for n in (1, 2, 3, 15, 16, 17, 31, 32, 1000):
        a[f"randn_f32_{n}"] = torch.randn(n, generator=seeded(123))
        a[f"randn_f64_{n}"] = torch.randn(n, dtype=torch.float64, generator=seeded(123))
    a["normal_f32"] = torch.empty(1003).normal_(2.5, 0.7, generator=seeded(123))
    a["normal_f64"] = torch.empty(11, dtype=torch.float64).normal_(2.5, 0.7, generator=seeded(123))
    g = seeded(123)  # one stream through odd and even calls: the cached half of a pair must survive
    a["mixed"] = torch.cat([torch.randn(3, generator=g), torch.rand(2, generator=g), torch.randn(2, generator=g),
                            torch.randn(20, generator=g), torch.randn(1, generator=g)])
    a["bernoulli_p"] = torch.empty(300).bernoulli_(0.3, generator=seeded(123))
    a["bernoulli_tensor_f32"] = torch.bernoulli(torch.linspace(0, 1, 300), generator=seeded(123))
    a["bernoulli_tensor_f64"] = torch.bernoulli(torch.linspace(0, 1, 300, dtype=torch.float64), generator=seeded(123))
    a["randint_small"] = torch.randint(-7, 1000, (100,), generator=seeded(123))
    a["randint_wide"] = torch.randint(-5, 1 << 40, (100,), generator=seeded(123))
    a["randint_f32"] = torch.randint(0, 1000, (100,), dtype=torch.float32, generator=seeded(123))
    a["random_i64"] = torch.empty(20, dtype=torch.int64).random_(generator=seeded(123))
    for n in (1, 2, 10, 1000):
        a[f"randperm_{n}"] = torch.randperm(n, generator=seeded(123))
    a["rand_large_seed"] = torch.rand(5, generator=seeded((5 << 32) + 9))
    g = torch.Generator()
    a["rand_unseeded"] = torch.rand(5, generator=g)
    g = seeded(123)
    torch.rand(1000, generator=g), torch.randn(1, generator=g)
    a["state"] = g.get_state()
    a["state_next"] = torch.cat([torch.randn(3, generator=g), torch.rand(700, generator=g)])
    return a


def samplers():
    """nn/data: the order of RandomSampler and DistributedSampler."""
    a = {}
    for n, samples in ((10, 10), (10, 25), (10, 4), (1433, 1433)):
        a[f"random_{n}_{samples}"] = list(RandomSampler(range(n), num_samples=samples, generator=seeded(5)))
    g = seeded(5)
    a["random_twice"] = [*RandomSampler(range(10), generator=g), *RandomSampler(range(10), generator=g)]
    a["random_replacement"] = list(RandomSampler(range(10), replacement=True, num_samples=70, generator=seeded(5)))
    torch.manual_seed(123)
    r = RandomSampler(range(100))
    a["random_default_generator"] = [*r, *r]
    for n, ranks in ((10, 1), (10, 3), (11, 4), (2, 5), (1433, 2)):
        for drop in (False, True):
            for epoch in (0, 3):
                for rank in range(ranks):
                    s = DistributedSampler(range(n), ranks, rank, seed=42, drop_last=drop)
                    s.set_epoch(epoch)
                    a[f"distributed_{n}_{ranks}_{rank}_{'drop' if drop else 'pad'}_{epoch}"] = list(s)
    for rank in range(4):
        a[f"ordered_11_4_{rank}"] = list(DistributedSampler(range(11), 4, rank, shuffle=False))
    return {name: torch.tensor(indices, dtype=torch.int64) for name, indices in a.items()}


def resize():
    """nn/data: bilinear interpolation without aligned corners."""
    image = torch.randint(0, 256, (8, 8), generator=seeded(1)).float() / 255
    a = {"image": image}
    for h, w in ((28, 28), (5, 3), (8, 8), (1, 1), (8, 31)):
        a[f"to_{h}_{w}"] = F.interpolate(image[None, None], (h, w), mode="bilinear", align_corners=False)[0, 0]
    return a


def dtypes():
    """nn/serialize: a file as Python writes it, with every dtype that both sides have."""
    a = {str(t).removeprefix("torch."): torch.arange(-2, 4).reshape(2, 3).to(t) for t in (
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int16,
        torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64, torch.bool)}
    a["scalar"] = torch.tensor(2.5)
    a["empty"] = torch.zeros(0, 3)
    return a


TOPICS = {f.__name__: f for f in (random, samplers, resize, dtypes)}


def main():
    for topic in sys.argv[1:] or TOPICS:
        arrays = {name: tensor.contiguous() for name, tensor in TOPICS[topic]().items()}
        save_file(arrays, ARRAYS / f"{topic}.safetensors", metadata={"made_by": "tests/parity/make_arrays.py"})
        print(f"{topic}: {len(arrays)} arrays, {sum(t.nbytes for t in arrays.values())} bytes")


if __name__ == "__main__":
    main()
