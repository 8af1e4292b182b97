#!/usr/bin/env python3
"""Compares dlrun's operations with PyTorch's on random cases; tests/parity/fuzz/README.md says how.

    python tests/parity/fuzz/fuzz_operations.py --program build/release/tests/run_cases [--cases 100000] [--seed 0] [--only NAME] [--one SEED]
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import torch
from safetensors.torch import load_file, save_file

import cases

HERE = pathlib.Path(__file__).resolve().parent
# The share of a tensor's largest magnitude by which results may differ from PyTorch's in float64.
SHARE = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 0.0, torch.float16: 0.0}
DIGITS = {torch.float64: 52, torch.float32: 23, torch.bfloat16: 7, torch.float16: 10}
# Beyond this a number does not count for the largest magnitude, and is compared by itself.
HUGE = 1e4


def memory_of(result, inputs):
    """As run_cases says it: whose memory a result has. A "temporary" is a view of a tensor that only the operation has."""
    for x in inputs:
        if x is result:
            return "input"
        if x is not None and x.untyped_storage().data_ptr() == result.untyped_storage().data_ptr():
            return "view" if result._is_view() else "shared"
    return "temporary" if result._is_view() else "new"


def run_torch(case, dtype=None, noise=None, dense=False):
    """Results, gradients, what the gradients were computed with, and whose memory the results have."""
    inputs = [None if x is None else x.tensor(dtype, noise, dense) for x in case.inputs]
    results = case.call(*inputs)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    weights = {}
    memory = [memory_of(y, inputs) for y in results]
    total = None
    for i, y in enumerate(results):
        if y.requires_grad:
            n = y.numel()
            weights[i] = ((torch.arange(n, dtype=torch.float64) * 5 % 11 - 5) / 4 + 0.125).reshape(y.shape)
            part = (y.double() * weights[i]).sum()
            total = part if total is None else total + part
    if total is not None and total.requires_grad:
        total.backward()
    gradients = {i: x.grad for i, x in enumerate(inputs) if x is not None and x.grad is not None}
    return [y.detach() for y in results], gradients, weights, memory


def spacing(x, dtype):
    """The distance to the next number of the dtype, of ones this size."""
    least = torch.finfo(dtype).tiny
    return torch.exp2(torch.floor(torch.log2(x.abs().clamp(min=least))) - DIGITS[dtype])


def difference(got, wanted, exact, places, moved=()):
    """What is wrong with `got`, or None. `wanted` is PyTorch's result, `exact` the one of float64, `moved` those of inputs
    that are half a unit in the last place off: a result may be as far off as these are."""
    if got.dtype != wanted.dtype:
        return f"dtype: {got.dtype}, wanted {wanted.dtype}"
    if got.shape != wanted.shape:
        return f"shape: {tuple(got.shape)}, wanted {tuple(wanted.shape)}"
    if not wanted.dtype.is_floating_point:
        wrong = (got != wanted).flatten()
        return f"values: {got.flatten()[wrong][0]}, wanted {wanted.flatten()[wrong][0]}" if wrong.any() else None
    if exact is None or exact.shape != wanted.shape:
        exact = wanted
    rounded = exact.to(wanted.dtype)
    g, w, e = got.double().flatten(), wanted.double().flatten(), exact.double().flatten()
    odd = ~(g.isfinite() & w.isfinite() & e.isfinite())
    def same(a, b):
        return (a == b) | (a.isnan() & b.isnan())
    wrong = odd & ~same(g, w) & ~same(g, rounded.double().flatten())
    if wrong.any():
        i = wrong.nonzero()[0, 0]
        return f"values: {g[i].item()}, wanted {w[i].item()} (in float64 {e[i].item()})"
    allowed = torch.zeros_like(e)
    for other in moved:
        off = (other.double().flatten() - e).abs() * 8
        allowed = torch.maximum(allowed, torch.where(off.isfinite(), off, 0.0))
    g, w, e, allowed = g[~odd], w[~odd], e[~odd], allowed[~odd]
    if g.numel() == 0:
        return None
    usual = e.abs() <= HUGE
    largest = e[usual].abs().max() if usual.any() else torch.tensor(0.0)
    error = (w - e)[usual].abs().max() if usual.any() else torch.tensor(0.0)
    if places >= 3:  # sums and quotients, whose parts are about 1
        largest = largest.clamp(min=1.0)
    size = torch.where(usual, largest, e.abs())
    own = torch.where(usual, error, (w - e).abs())
    limit = torch.maximum(size * SHARE[wanted.dtype], 2 * own)
    if wanted.dtype.itemsize == 2:
        limit = torch.maximum(limit, places * spacing(e, wanted.dtype))
    limit = torch.maximum(limit, allowed)
    limit = limit + torch.finfo(wanted.dtype).tiny  # denormal numbers may be flushed
    wrong = (g - e).abs() > limit
    if wrong.any():
        i = ((g - e).abs() / limit).argmax()
        return f"values: {g[i].item()}, wanted {w[i].item()} (in float64 {e[i].item()}, limit {limit[i].item():.3g})"
    return None


class Known:
    """The committed list of differences that stand, each with its reason."""

    def __init__(self, path):
        self.rows = []
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                pattern, reason = line.split("\t")
                self.rows.append([re.compile(pattern), reason, 0])

    def has(self, text):
        for row in self.rows:
            if row[0].search(text):
                row[2] += 1
                return True
        return False


def describe(seed, case):
    inputs = ", ".join("none" if x is None else f"{str(x.memory.dtype)[6:]}{list(x.shape)}" for x in case.inputs)
    words = sorted(set().union(*(x.words() for x in case.inputs if x is not None)))
    return f"{case.op}({inputs}) [{' '.join(words)}] {json.dumps(case.args)} seed {seed}"


def layout_difference(wanted, ours):
    """What is wrong with a result's strides, or None. Those of dimensions of size 1 do not count."""
    if wanted.numel() == 0:
        return None
    def places(strides):
        return [step for step, size in zip(strides, wanted.shape) if size > 1]
    theirs = places(wanted.stride())
    if places(ours) != theirs:
        return f"layout: strides {ours} of shape {list(wanted.shape)}, wanted {list(wanted.stride())}"
    return None


def compare(case, expected, tensors, refusal, strides, memory, id):
    """Sentences on what differs: '<kind>: <detail>'."""
    if isinstance(expected, Exception):
        return [] if refusal else [f"accepted: PyTorch says {str(expected).splitlines()[0] if str(expected) else type(expected).__name__}"]
    if refusal:
        return [f"refused: {refusal}"]
    (results, gradients, _, places), reference = expected
    found = []
    moved = []  # made when they are needed

    def compared(got, wanted, pick, places):
        exact = pick(reference) if reference else None
        wrong = difference(got, wanted, exact, places)
        if wrong and " values" in " " + wrong and exact is not None and wanted.dtype.is_floating_point:
            if not moved:
                noise = torch.Generator().manual_seed(1)
                moved.extend(run_torch(case, torch.float64, noise) for _ in range(6))
            wrong = difference(got, wanted, exact, places, [pick(run) for run in moved])
        if wrong:
            plain = pick(run_torch(case, dense=True))
            plain_exact = pick(run_torch(case, torch.float64, dense=True)) if reference else None
            if plain is not None and not difference(got, plain, plain_exact, places + 1) and difference(wanted, plain, plain_exact, places + 1):
                wrong += " (PyTorch's own result depends on the layout)"
        return wrong
    count = sum(1 for name in tensors if name.startswith(f"{id}.y"))
    if count != len(results):
        return [f"results: {count}, wanted {len(results)}"]
    for i, wanted in enumerate(results):
        wrong = compared(tensors[f"{id}.y{i}"], wanted, lambda run: run[0][i], case.places)
        if wrong:
            found.append(f"result {i} {wrong}")
            continue
        wrong = layout_difference(wanted, strides[i])
        if wrong:
            found.append(f"result {i} {wrong}")
        # Nothing tells whose memory no element has; a view of a temporary is harmless, and need not be one.
        if wanted.numel() and memory[i] != places[i] and (memory[i], places[i]) != ("new", "temporary"):
            found.append(f"result {i} memory: {memory[i]}, wanted {places[i]}")
    if found:
        return found
    for i in range(len(case.inputs)):
        ours, theirs = tensors.get(f"{id}.g{i}"), gradients.get(i)
        if ours is None and theirs is None:
            continue
        if ours is None or theirs is None:
            # No gradient is a gradient of 0.
            present = theirs if ours is None else ours
            if (present != 0).any():
                found.append(f"gradient {i} is missing" if ours is None else f"gradient {i}: PyTorch has none")
            continue
        wrong = compared(ours, theirs, lambda run: run[1].get(i), 2 * case.places)
        if wrong:
            found.append(f"gradient {i} {wrong}")
    return found


def run_shard(program, folder, seeds, only, families):
    listed, memory, expected, drawn = [], {}, {}, {}
    for seed in seeds:
        case = cases.draw(seed, families)
        if only and case.op != only:
            continue
        drawn[seed] = case
        try:
            outcome = run_torch(case)
            try:
                reference = run_torch(case, torch.float64)
            except Exception:  # noqa: BLE001 - any refusal of PyTorch's
                reference = None
            expected[seed] = outcome, reference
            for i, weight in outcome[2].items():
                memory[f"{seed}.w{i}"] = weight.contiguous()
        except Exception as error:  # noqa: BLE001
            expected[seed] = error
        for i, x in enumerate(case.inputs):
            if x is not None:
                memory[f"{seed}.m{i}"] = x.memory.contiguous()
        layouts = [None if x is None else {"shape": x.shape, "strides": x.strides, "offset": x.offset, "grad": x.grad} for x in case.inputs]
        listed.append({"id": str(seed), "op": case.op, "in": layouts, "args": case.args})
    (folder / "in.json").write_text(json.dumps(listed))
    save_file(memory, folder / "in.safetensors")
    subprocess.run([program, folder / "in", folder / "out"], check=True)
    tensors = load_file(folder / "out.safetensors")
    by_case = collections.defaultdict(dict)
    for name, tensor in tensors.items():
        by_case[name.split(".")[0]][name] = tensor
    told = json.loads((folder / "out.json").read_text())
    for seed, case in drawn.items():
        id = str(seed)
        yield seed, case, compare(case, expected[seed], by_case[id], told["refused"].get(id), told["strides"].get(id),
                                  told["memory"].get(id), id)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="the first case's")
    parser.add_argument("--families", type=lambda text: text.split(","), default=(), help="families of cases.py, with commas")
    parser.add_argument("--shard", type=int, default=4000)
    parser.add_argument("--only", help="cases of one operation")
    parser.add_argument("--show", type=int, default=3, help="examples of each kind of difference")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    known = Known(HERE / "differences.tsv")
    found, counts, total = collections.defaultdict(list), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as name:
        for first in range(options.seed, options.seed + options.cases, options.shard):
            seeds = range(first, min(first + options.shard, options.seed + options.cases))
            for seed, case, wrong in run_shard(options.program, pathlib.Path(name), seeds, options.only, options.families):
                total += 1
                counts[case.op] += 1
                for text in wrong:
                    whole = f"{describe(seed, case)}: {text}"
                    if not known.has(whole):
                        found[case.op, " ".join(text.split()[:3])].append(whole)
    for (op, kind), texts in sorted(found.items()):
        print(f"\n{op}, {kind}: {len(texts)} of {counts[op]}")
        for text in texts[:options.show]:
            print("  " + text)
    names = set(subprocess.run([options.program, "--names"], check=True, capture_output=True, text=True).stdout.split())
    if not options.only and not options.families:
        print(f"\nnever drawn: {', '.join(sorted(names - set(counts))) or 'none'}")
    print(f"\n{total} cases of {len(counts)} operations; {sum(row[2] for row in known.rows)} known differences; {sum(map(len, found.values()))} new ones")
    for pattern, reason, count in known.rows:
        print(f"  {count:6} {pattern.pattern}: {reason}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
