"""The rows of core/'s lists, with PyTorch's functions of the same names."""
import csv
import functools
import pathlib
import re
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import make_arrays  # noqa: E402


@functools.cache
def unary_rows():
    """Name, the numbers a and b, and between which numbers the function is smooth."""
    found = []
    for columns in make_arrays.rows():
        a, b = (float(x) for x in columns[11:]) if len(columns) > 11 else (0.0, 0.0)
        found.append((columns[1], a, b, float(columns[6]), float(columns[7])))
    return found


def unary(name, a, b):
    return torch.nn.functional.hardsigmoid if name == "hardsigmoid" else make_arrays.torch_function(name, a, b)


@functools.cache
def reduction_rows():
    return [(name, p) for name, _, _, p in make_arrays.reduction_rows()]


def reduced(name, x, dims, keepdim, p):
    if name == "count_nonzero":
        y = torch.count_nonzero(x, dims)
        return y if dims is None or not keepdim else y.reshape([1 if d in {e % x.dim() for e in dims} else n for d, n in enumerate(x.shape)])
    if name in ("var", "std"):
        return getattr(torch, name)(x, dim=dims, correction=p, keepdim=keepdim)
    if name == "norm":
        return torch.linalg.vector_norm(x, ord=p, dim=dims, keepdim=keepdim)
    if name == "prod":
        if dims is None:
            return x.prod()
        kept = [d for d in range(x.dim()) if d not in {e % x.dim() for e in dims}]
        y = x.permute(*kept, *[d % x.dim() for d in dims]).flatten(len(kept)).prod(-1)
        return y.reshape([1 if d not in kept else n for d, n in enumerate(x.shape)]) if keepdim else y
    if name in ("amax", "amin", "any", "all", "logsumexp") and dims is None:
        dims = list(range(x.dim()))
        if name == "logsumexp" or name in ("amax", "amin"):
            return getattr(torch, name)(x, dims)
        return getattr(torch, name)(x)
    return getattr(torch, name)(x) if dims is None else getattr(torch, name)(x, dims, keepdim=keepdim)
