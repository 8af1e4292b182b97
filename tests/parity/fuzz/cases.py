"""Random cases: an operation, its tensors in random layouts, and its other arguments, with PyTorch's call of the same name."""
import dataclasses
import itertools
import math
import random

import torch
import torch.nn.functional as F

import lists

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ALL = FLOATS + INTEGERS + [torch.bool]


@dataclasses.dataclass
class Input:
    memory: torch.Tensor  # one dimension
    shape: tuple
    strides: tuple
    offset: int
    grad: bool

    def tensor(self, dtype=None, noise=None, dense=False):
        """In another dtype, with each number moved by up to half a unit of its last place, or row-major."""
        memory = self.memory if dtype is None or not self.memory.is_floating_point() else self.memory.to(dtype)
        if noise is not None and self.memory.is_floating_point():
            moves = torch.rand(memory.shape, generator=noise, dtype=torch.float64) - 0.5
            memory = memory * (1 + torch.finfo(self.memory.dtype).eps * moves)
        tensor = torch.as_strided(memory.clone(), self.shape, self.strides, self.offset).detach()
        return (tensor.clone(memory_format=torch.contiguous_format) if dense else tensor).requires_grad_(self.grad)

    def words(self):
        """What special numbers there are."""
        x = self.memory
        if not x.is_floating_point():
            return set()
        huge = 1e3 if x.dtype == torch.float16 else 1e140 if x.dtype == torch.float64 else 1e15
        return {word for word, found in (("NaN", x.isnan()), ("infinite", x.isinf()), ("huge", x.isfinite() & (x.abs() > huge))) if found.any()}


@dataclasses.dataclass
class Case:
    op: str
    inputs: list
    args: dict
    call: object  # of the tensors and the arguments: PyTorch's result, or a list of results
    places: int = 1  # roundings that a 16-bit result may differ by
    note: str = ""


class Maker:
    """Draws shapes, values and layouts."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.g = torch.Generator().manual_seed(seed)

    def dtype(self, choices=FLOATS):
        if choices is FLOATS:
            return self.r.choices(FLOATS, (5, 2, 2, 1))[0]
        return self.r.choice(choices)

    def shape(self, low=0, high=4):
        kind = self.r.random()
        rank = self.r.randint(low, high)
        if kind < 0.05:
            return tuple(self.r.choice((0, 1, 3)) for _ in range(rank))
        if kind < 0.12 and rank:
            return tuple(self.r.randint(1, 3) for _ in range(rank - 1)) + (self.r.randint(60, 700),)
        return tuple(self.r.choice((1, 2, 3, 4, 5, 7, 9)) for _ in range(rank))

    def broadcast(self, shape):
        """A shape that broadcasts to this one."""
        kept = tuple(1 if self.r.random() < 0.2 else n for n in shape)
        return kept[self.r.randint(0, len(kept)):] if self.r.random() < 0.3 else kept

    def values(self, count, dtype, low=-3.0, high=3.0, special=None):
        if dtype == torch.bool:
            return torch.rand(count, generator=self.g) < 0.5
        if not dtype.is_floating_point:
            info = torch.iinfo(dtype)
            kind = self.r.random()
            lowest, highest = (info.min, info.max) if kind < 0.05 else (-9, 10) if kind < 0.8 else (-100, 101)
            return torch.randint(max(lowest, info.min), highest, (count,), generator=self.g, dtype=torch.int64).to(dtype)
        special = self.r.random() < 0.15 if special is None else special
        if self.r.random() < 0.15 and math.ceil(low) <= math.floor(high):
            x = torch.randint(math.ceil(low), math.floor(high) + 1, (count,), generator=self.g).to(torch.float64)
        else:
            x = torch.rand(count, generator=self.g, dtype=torch.float64) * (high - low) + low
        if special:
            odd = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0, -1.0, 0.5, -2.5, torch.finfo(dtype).max, -torch.finfo(dtype).max,
                   torch.finfo(dtype).tiny, 1e30 if dtype != torch.float16 else 3e4, 1e-30]
            kinds = self.r.sample(odd, self.r.randint(1, 4))
            for i in range(count):
                if self.r.random() < 0.3:
                    x[i] = self.r.choice(kinds)
        return x.to(torch.float32).to(dtype) if dtype != torch.float64 or not special else x

    def input(self, shape, dtype, low=-3.0, high=3.0, special=None, grad=None, plain=False, distinct=False):
        """A tensor in a random layout: any order of dimensions, gaps, an offset, repeated elements."""
        rank = len(shape)
        order, steps, offset, repeated = list(range(rank)), [1] * rank, 0, set()
        kind = 0 if plain else self.r.random()
        if rank and kind > 0.4:
            if kind > 0.9 and not distinct:
                repeated = {d for d in range(rank) if self.r.random() < 0.3}
            if kind > 0.7:
                steps = [self.r.choice((1, 1, 2, 3)) for _ in range(rank)]
                offset = self.r.randint(0, 3)
            if kind < 0.6 or kind > 0.8:
                self.r.shuffle(order)
            elif rank == 4:
                order = [0, 2, 3, 1]
        strides, size = [0] * rank, 1
        for d in reversed(order):
            if d not in repeated:
                strides[d] = size * steps[d]
                size *= max(shape[d], 1) * steps[d]
        count = max(size, 1) + offset
        memory = self.values(count, dtype, low, high, special)
        if distinct:
            memory = (torch.randperm(count, generator=self.g) - count // 2).to(dtype)
        return Input(memory, tuple(shape), tuple(strides), offset, dtype.is_floating_point if grad is None else grad)

    def indices(self, shape, bound, negative=False):
        low = -bound if negative and self.r.random() < 0.5 else 0
        memory = torch.randint(low, max(bound, 1), (math.prod(shape),), generator=self.g)
        strides = [math.prod(shape[d + 1:]) for d in range(len(shape))]
        return Input(memory, tuple(shape), tuple(strides), 0, False)

    def number(self, dtype):
        kind = self.r.random()
        if kind < 0.5 or not dtype.is_floating_point:
            return self.r.choice((0, 1, 2, 3, -1, -2, 5, 7)) if kind < 0.9 else self.r.choice((0.5, -1.5, 2.5, True))
        return round(self.r.uniform(-3, 3), 3)

    def dim(self, rank):
        return self.r.randint(-max(rank, 1), max(rank, 1) - 1)


FAMILIES = []  # (weight, function)


def family(weight):
    def add(f):
        FAMILIES.append((weight, f))
        return f
    return add


@family(14)
def unary(m):
    name, a, b, low, high = m.r.choice(lists.unary_rows())
    row = name + (".row" if name in ("pow", "clamp") else "")
    # Functions of that name take integers, their rows do not.
    dtype = m.dtype(ALL) if m.r.random() < 0.2 and row == name else m.dtype()
    args = {"a": a, "b": b} if a or b else {}
    x = m.input(m.shape(), dtype, low, high)
    if m.r.random() < 0.2:
        def in_place(x):
            y = lists.unary(name, a, b)(x)
            if y.dtype != x.dtype:
                raise TypeError(f"a result of {y.dtype} cannot be written into {x.dtype}")
            return x.clone().copy_(y)
        return Case(row + "_", [x], args, in_place, 2)
    return Case(row, [x], args, lists.unary(name, a, b), 2)


BINARY = ("add", "sub", "mul", "div", "minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge", "pow", "atan2", "fmod", "remainder", "floor_divide",
          "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor")
LATER_BINARY = ("hypot", "logaddexp", "logaddexp2", "xlogy", "gcd", "copysign", "heaviside", "bitwise_left_shift", "bitwise_right_shift")


def operands(m, whole=False):
    first = m.dtype(ALL) if m.r.random() < 0.3 or whole else m.dtype()
    second = first if m.r.random() < 0.8 else m.dtype(ALL)
    shape = m.shape()
    return [m.input(m.broadcast(shape), first), m.input(m.broadcast(shape), second)]


@family(14)
def binary(m):
    name = m.r.choice(BINARY)
    f = getattr(torch, name)
    return Case(name, operands(m, "bitwise" in name), {}, f, 2)


@family(6)
def binary_with_number(m):
    name = m.r.choice(("add", "sub", "mul", "div", "fmod", "remainder", "floor_divide", "pow", "eq", "ne", "lt", "le", "gt", "ge", "bitwise_and",
                       "bitwise_or", "bitwise_xor"))
    dtype = m.dtype(ALL) if "bit" in name or m.r.random() < 0.3 else m.dtype()
    other = m.number(dtype)
    f = getattr(torch, name)
    if name in ("sub", "div", "pow") and m.r.random() < 0.3:
        reverse = {"sub": lambda x: other - x, "div": lambda x: other / x, "pow": lambda x: torch.pow(other, x)}[name]
        return Case(name + ".from_number", [m.input(m.shape(), dtype)], {"other": other}, reverse, 2)
    return Case(name + ".number", [m.input(m.shape(), dtype)], {"other": other}, lambda x: f(x, other), 2)


@family(3)
def binary_in_place(m):
    name = m.r.choice(("add_", "sub_", "mul_", "div_"))
    shape = m.shape()
    dtype = m.dtype(ALL) if m.r.random() < 0.3 else m.dtype()
    a, b = m.input(shape, dtype), m.input(m.broadcast(shape), dtype if m.r.random() < 0.8 else m.dtype(ALL))
    if name == "add_":
        alpha = m.r.choice((1, 2, -3, 0.5)) if dtype.is_floating_point else m.r.choice((1, 2, -3))
        return Case("add_", [a, b], {"alpha": alpha}, lambda a, b: a.clone().add_(b, alpha=alpha), 2)
    return Case(name, [a, b], {}, lambda a, b: getattr(a.clone(), name)(b), 2)


@family(5)
def ternary(m):
    shape = m.shape()
    dtype = m.dtype()
    name = m.r.choice(("where", "lerp", "lerp.number", "clamp.tensors", "clamp", "masked_fill"))
    if name == "where":
        other = dtype if m.r.random() < 0.8 else m.dtype(ALL)
        return Case(name, [m.input(m.broadcast(shape), torch.bool), m.input(m.broadcast(shape), dtype), m.input(m.broadcast(shape), other)], {}, torch.where)
    if name == "lerp":
        return Case(name, [m.input(m.broadcast(shape), dtype) for _ in range(3)], {}, torch.lerp, 3)
    if name == "lerp.number":
        w = round(m.r.uniform(-1, 2), 2)
        return Case(name, [m.input(m.broadcast(shape), dtype) for _ in range(2)], {"weight": w}, lambda a, b: torch.lerp(a, b, w), 3)
    if name == "clamp.tensors":
        dtype = m.dtype(INTEGERS) if m.r.random() < 0.2 else dtype
        return Case(name, [m.input(m.broadcast(shape), dtype) for _ in range(3)], {}, torch.clamp)
    if name == "clamp":
        dtype = m.dtype(INTEGERS) if m.r.random() < 0.2 else dtype
        args = {k: m.number(dtype) for k in ("min", "max") if m.r.random() < 0.7}
        return Case(name, [m.input(shape, dtype)], args, lambda x: torch.clamp(x, **args))
    dtype = m.dtype(ALL) if m.r.random() < 0.2 else dtype
    value = m.number(dtype)
    return Case(name, [m.input(shape, dtype), m.input(m.broadcast(shape), torch.bool)], {"value": value}, lambda x, mask: x.masked_fill(mask, value))


@family(10)
def reductions(m):
    name, p = m.r.choice(lists.reduction_rows())
    shape = m.shape()
    dtype = m.dtype(ALL) if m.r.random() < 0.25 and name not in ("var", "std", "norm", "mean") else m.dtype()
    args = {}
    if m.r.random() < 0.75 and shape:
        dims = m.r.sample(range(len(shape)), m.r.randint(1, len(shape)))
        args["dims"] = [d - len(shape) if m.r.random() < 0.3 else d for d in dims]
        args["keepdim"] = m.r.random() < 0.4
    if name in ("var", "std"):
        p = m.r.choice((0, 1, 1, 2, 0.5))
    if name == "norm":
        p = m.r.choice((p, 1, 2, 3, 0.5))
    call_args = dict(args, p=str(p) if math.isinf(p) else p)
    return Case(name, [m.input(shape, dtype)], call_args, lambda x: lists.reduced(name, x, args.get("dims"), args.get("keepdim", False), p), 2)


@family(5)
def order(m):
    name = m.r.choice(("max", "min", "argmax", "argmin", "cumsum", "sort", "argsort", "topk"))
    shape = m.shape()
    dtype = m.dtype(ALL) if m.r.random() < 0.25 else m.dtype()
    dim = m.dim(len(shape))
    x = m.input(shape, dtype)
    if name in ("max", "min", "argmax", "argmin"):
        if m.r.random() < 0.3:
            return Case(name, [x], {}, getattr(torch, name))
        keepdim = m.r.random() < 0.4
        return Case(name, [x], {"dim": dim, "keepdim": keepdim}, lambda x: getattr(torch, name)(x, dim, keepdim=keepdim))
    if name == "cumsum":
        return Case(name, [x], {"dim": dim}, lambda x: torch.cumsum(x, dim), 2)
    if name in ("sort", "argsort"):
        descending = m.r.random() < 0.5
        return Case(name, [x], {"dim": dim, "descending": descending},
                    lambda x: getattr(torch, name)(x, dim=dim, descending=descending, stable=True))
    # PyTorch does not say which of equal elements topk takes.
    if dtype == torch.bool or dtype == torch.float16:
        dtype = torch.float32
    x = m.input(shape, torch.float32 if dtype == torch.bfloat16 else dtype if dtype.itemsize > 1 else torch.int32, distinct=True)
    size = shape[dim] if shape else 1
    k, largest = m.r.randint(0, size), m.r.random() < 0.5
    return Case(name, [x], {"k": k, "dim": dim, "largest": largest}, lambda x: torch.topk(x, k, dim, largest))


@family(6)
def pairs_and_triples(m):
    """Functions of two and three elements, and forms in place that write the result of another operation."""
    name = m.r.choice(LATER_BINARY * 2 + ("copysign.number", "xlogy.number", "xlogy.from_number", "xlogy_", "bitwise_left_shift.number", "addcmul", "addcdiv", "nan_to_num", "pow_", "hypot_", "copysign_",
                                          "fmod_", "lt_", "logical_and_", "addcmul_", "lerp_"))
    if name in LATER_BINARY:
        if name == "gcd" and m.r.random() < 0.8:
            shape = m.shape()
            return Case(name, [m.input(m.broadcast(shape), m.dtype(INTEGERS)) for _ in range(2)], {}, torch.gcd)
        return Case(name, operands(m, "bitwise" in name), {}, getattr(torch, name), 2)
    shape = m.shape()
    if name.endswith(".from_number"):
        dtype = m.dtype(ALL) if m.r.random() < 0.3 else m.dtype()
        other = m.number(dtype)
        f = getattr(torch, name.split(".")[0])
        return Case(name, [m.input(shape, dtype)], {"other": other}, lambda x: f(other, x), 2)
    if name.endswith(".number"):
        dtype = m.dtype(INTEGERS) if "bitwise" in name else m.dtype(ALL) if m.r.random() < 0.3 else m.dtype()
        other = m.number(dtype)
        f = getattr(torch, name.split(".")[0])
        return Case(name, [m.input(shape, dtype)], {"other": other}, lambda x: f(x, other), 2)
    dtype = m.dtype(INTEGERS) if m.r.random() < 0.15 else m.dtype()
    if name == "nan_to_num":
        args = {"nan": 0.0} | {k: round(m.r.uniform(-9, 9), 2) for k in ("nan", "posinf", "neginf") if m.r.random() < 0.4}
        return Case(name, [m.input(shape, dtype)], args, lambda x: torch.nan_to_num(x, **args))
    if name in ("addcmul", "addcdiv", "addcmul_"):
        value = m.r.choice((1, 2, -3)) if not dtype.is_floating_point or m.r.random() < 0.5 else round(m.r.uniform(-3, 3), 2)
        x = m.input(shape if name == "addcmul_" else m.broadcast(shape), dtype)
        two = [m.input(m.broadcast(shape), dtype if m.r.random() < 0.9 else m.dtype()) for _ in range(2)]
        if name == "addcmul_":
            return Case(name, [x, *two], {"value": value}, lambda x, a, b: x.clone().addcmul_(a, b, value=value), 3)
        return Case(name, [x, *two], {"value": value}, lambda x, a, b: getattr(torch, name)(x, a, b, value=value), 3)
    a, b = m.input(shape, dtype), m.input(m.broadcast(shape), dtype if m.r.random() < 0.8 else m.dtype(ALL))
    if name == "lerp_":
        w = round(m.r.uniform(-1, 2), 2)
        return Case(name, [a, b], {"weight": w}, lambda a, b: a.clone().lerp_(b, w), 3)
    return Case(name, [a, b], {}, lambda a, b: getattr(a.clone(), name)(b), 2)


@family(6)
def along(m):
    """Medians, products and other reductions that are no rows, and different elements."""
    name = m.r.choice(("cumprod", "median", "nanmedian", "kthvalue", "nanmean", "aminmax", "unique", "unique_consecutive"))
    shape = m.shape()
    dtype = m.dtype(ALL) if m.r.random() < 0.25 else m.dtype()
    dim = m.dim(len(shape))
    x = m.input(shape, dtype)
    if name == "cumprod":
        return Case(name, [x], {"dim": dim}, lambda x: torch.cumprod(x, dim), 2)
    if name in ("unique", "unique_consecutive"):
        x = m.input(shape, m.dtype(INTEGERS[:4]) if m.r.random() < 0.5 else dtype, grad=False)
        return Case(name, [x], {}, lambda x: getattr(torch, name)(x, return_inverse=True, return_counts=True))
    keepdim = m.r.random() < 0.4
    if name == "kthvalue":
        x = m.input(shape, dtype if dtype.itemsize > 2 else torch.float32 if dtype.is_floating_point else torch.int32, distinct=True)
        k = m.r.randint(1, max(shape[dim], 1)) if shape else 1
        return Case(name, [x], {"k": k, "dim": dim, "keepdim": keepdim}, lambda x: torch.kthvalue(x, k, dim, keepdim))
    if m.r.random() < 0.3:
        return Case(name, [x], {}, getattr(torch, name))
    return Case(name, [x], {"dim": dim, "keepdim": keepdim}, lambda x: getattr(torch, name)(x, dim=dim, keepdim=keepdim), 2)


@family(6)
def more_places(m):
    name = m.r.choice(("index_copy", "index_fill", "index_fill.tensor", "masked_scatter", "scatter_reduce", "scatter_reduce", "scatter_reduce", "bincount"))
    dtype = m.dtype(ALL) if m.r.random() < 0.3 else m.dtype()
    shape = tuple(max(n, 1) for n in m.shape(1))
    dim = m.dim(len(shape))
    x = m.input(shape, dtype)
    size = shape[dim]
    if name == "bincount":
        i = m.indices((m.r.randint(0, 30),), m.r.randint(1, 9))
        i.memory = i.memory.to(m.dtype(INTEGERS))
        weight = m.input(i.shape, m.dtype([torch.float32, torch.float64, torch.int64]), grad=False, special=False) if m.r.random() < 0.5 else None
        least = m.r.choice((0, 0, 5, 12))
        return Case(name, [i, weight], {"minlength": least}, lambda i, w: torch.bincount(i, w, least), 3)
    if name == "masked_scatter":
        mask = m.input(m.broadcast(shape), torch.bool)
        count = math.prod(shape) + m.r.choice((0, 0, 3))
        return Case(name, [x, mask, m.input((count,), dtype)], {}, torch.masked_scatter, 2)
    if name == "scatter_reduce":
        index_shape = [m.r.randint(1, n) for n in shape]
        index_shape[dim] = m.r.randint(1, 9)
        reduce, own = m.r.choice(("sum", "prod", "mean", "amax", "amin")), m.r.random() < 0.6
        args = {"dim": dim, "reduce": reduce, "include_self": own}
        return Case(name, [x, m.indices(index_shape, size), m.input(index_shape, dtype)], args,
                    lambda x, i, s: x.scatter_reduce(dim, i, s, reduce, include_self=own), 4)
    if name == "index_copy":
        picked = torch.randperm(size, generator=m.g)[:m.r.randint(0, size)]
        index = Input(picked, tuple(picked.shape), (1,), 0, False)
        source_shape = list(shape)
        source_shape[dim] = index.shape[0]
        return Case(name, [x, index, m.input(source_shape, dtype)], {"dim": dim}, lambda x, i, s: x.index_copy(dim, i, s), 2)
    index = m.indices((m.r.randint(0, 4),), size, True)
    if name == "index_fill.tensor":
        return Case(name, [x, index, m.input((), dtype)], {"dim": dim}, lambda x, i, v: x.index_fill(dim, i, v), 3)
    value = m.number(dtype)
    return Case(name, [x, index], {"dim": dim, "value": value}, lambda x, i: x.index_fill(dim, i, value))


@family(6)
def margins(m):
    """Losses that are made of other operations."""
    name = m.r.choice(("hinge_embedding_loss", "soft_margin_loss", "multilabel_soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss",
                       "poisson_nll_loss", "gaussian_nll_loss", "margin_ranking_loss", "triplet_margin_loss", "pairwise_distance"))
    dtype, reduction = m.dtype([torch.float32, torch.float64]), m.r.choice(("none", "mean", "sum"))
    args = {"reduction": reduction}
    margin = m.r.choice((0.3, 1.0, 2.0))
    shape = tuple(max(n, 1) for n in m.shape(1, 3))
    x = m.input(shape, dtype, special=False)
    def signs(shape):
        t = torch.randint(0, 2, (math.prod(shape),), generator=m.g) * 2 - 1
        return Input(t.to(dtype), tuple(shape), tuple(math.prod(shape[d + 1:]) for d in range(len(shape))), 0, False)
    def case(inputs, call, places=6, **more):
        return Case(name, inputs, args | more, lambda *t: call(*t, reduction=reduction, **more), places)
    if name == "hinge_embedding_loss":
        return case([x, signs(shape)], F.hinge_embedding_loss, margin=margin)
    if name == "soft_margin_loss":
        return case([x, signs(shape)], F.soft_margin_loss)
    if name == "multilabel_soft_margin_loss":
        weight = m.input(shape[-1:], dtype, 0.1, 2, special=False, grad=False) if m.r.random() < 0.4 else None
        return Case(name, [x, m.input(shape, dtype, 0, 1, special=False, grad=False), weight], args,
                    lambda x, t, w: F.multilabel_soft_margin_loss(x, t, w, reduction=reduction), 6)
    if name in ("multi_margin_loss", "multilabel_margin_loss"):
        lead, classes = (m.r.randint(1, 5),) if m.r.random() < 0.8 else (), m.r.randint(1, 7)
        x = m.input(lead + (classes,), dtype, special=False)
        if name == "multi_margin_loss":
            p = m.r.choice((1, 2))
            weight = m.input((classes,), dtype, 0.1, 2, special=False, grad=False) if m.r.random() < 0.4 else None
            return Case(name, [x, m.indices(lead, classes), weight], args | {"p": p, "margin": margin},
                        lambda x, t, w: F.multi_margin_loss(x, t, p, margin, w, reduction=reduction), 6)
        t = m.indices(lead + (classes,), classes)
        t.memory = torch.where(torch.rand(t.memory.shape, generator=m.g) < 0.3, -1, t.memory)
        return case([x, t], F.multilabel_margin_loss)
    if name == "poisson_nll_loss":
        more = {"log_input": m.r.random() < 0.5, "full": m.r.random() < 0.5, "eps": m.r.choice((1e-8, 0.1))}
        return case([m.input(shape, dtype, 0.1, 3, special=False), m.input(shape, dtype, 0.1, 9, special=False, grad=False)], F.poisson_nll_loss, **more)
    if name == "gaussian_nll_loss":
        width = shape if m.r.random() < 0.5 else shape[:-1] + (1,) if m.r.random() < 0.5 else shape[:-1]
        more = {"full": m.r.random() < 0.5, "eps": m.r.choice((1e-6, 0.5))}
        return case([x, m.input(shape, dtype, special=False), m.input(width, dtype, 0, 2, special=False)], F.gaussian_nll_loss, **more)
    if name == "margin_ranking_loss":
        return case([x, m.input(shape, dtype, special=False), signs(shape)], F.margin_ranking_loss, margin=margin)
    p, eps = m.r.choice((1, 2, 3, 0.5)), m.r.choice((1e-6, 0.1))
    if name == "pairwise_distance":
        keepdim = m.r.random() < 0.4
        more = {"p": p, "eps": eps, "keepdim": keepdim}
        return Case(name, [x, m.input(shape, dtype, special=False)], more, lambda a, b: F.pairwise_distance(a, b, p, eps, keepdim), 6)
    two = (m.r.randint(1, 5), m.r.randint(1, 6))
    more = {"margin": margin, "p": p, "eps": eps, "swap": m.r.random() < 0.5}
    return case([m.input(two, dtype, special=False) for _ in range(3)], F.triplet_margin_loss, 8, **more)


@family(2)
def sequences(m):
    """CTC's loss: targets padded and one after another, of one sample and of a batch, too long ones, and probabilities of 0."""
    r, dtype = m.r, m.dtype([torch.float32, torch.float64])
    batched = r.random() < 0.85
    n, steps, classes = r.randint(1, 4) if batched else 1, r.randint(1, 12), r.randint(2, 6)
    blank = r.randrange(classes)
    x = m.input((steps, n, classes) if batched else (steps, classes), dtype, -5, 0, special=False)
    if r.random() < 0.1:
        x.memory = torch.where(torch.rand(x.memory.shape, generator=m.g) < 0.2, -math.inf, x.memory)
    labels = r.choice((1, 3, 3, 6))
    lengths = [r.randint(0, labels) for _ in range(n)]
    padded = batched and r.random() < 0.6
    targets = m.indices((n, labels) if padded else (sum(lengths),), classes)
    targets.memory = torch.where(targets.memory == blank, (blank + 1) % classes, targets.memory)
    shape = (n,) if batched or r.random() < 0.5 else ()
    def counts(numbers):
        return Input(torch.tensor(numbers, dtype=r.choice((torch.int64, torch.int32))), shape, (1,) * len(shape), 0, False)
    args = {"blank": blank, "reduction": r.choice(("none", "mean", "sum")), "zero_infinity": r.random() < 0.4}
    softmax = r.random() < 0.5
    inputs = [x, targets, counts([r.randint(0 if r.random() < 0.2 else 1, steps) for _ in range(n)]), counts(lengths)]
    return Case("ctc_loss", inputs, dict(args, softmax=softmax),
                lambda x, t, i, l: F.ctc_loss(x.log_softmax(-1) if softmax else x, t, i, l, **args), 4)


@family(2)
def gates(m):
    name = m.r.choice(("prelu", "glu", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle"))
    dtype, shape = m.dtype(), m.shape(1)
    if name == "prelu":
        count = 1 if len(shape) < 2 or m.r.random() < 0.4 else shape[1]
        return Case(name, [m.input(shape, dtype), m.input((count,), dtype, -1, 1, special=False)], {}, F.prelu, 3)
    if name == "glu":
        dim = m.dim(len(shape))
        shape = tuple(2 * n if d == dim % len(shape) else n for d, n in enumerate(shape))
        return Case(name, [m.input(shape, dtype)], {"dim": dim}, lambda x: F.glu(x, dim), 3)
    r, (c, h, w) = m.r.randint(1, 3), (m.r.randint(1, 3) for _ in range(3))
    if name == "channel_shuffle":
        shape = (m.r.randint(0, 2), c * r, h, w, *m.shape(0, 1))
        return Case(name, [m.input(shape, dtype)], {"groups": r}, lambda x: F.channel_shuffle(x, r))
    image = m.shape(0, 1) + ((c * r * r, h, w) if name == "pixel_shuffle" else (c, h * r, w * r))
    return Case(name, [m.input(image, dtype)], {"factor": r}, lambda x: getattr(F, name)(x, r))


@family(4)
def softmax(m):
    name = m.r.choice(("softmax", "log_softmax"))
    shape = m.shape()
    dim = m.dim(len(shape))
    return Case(name, [m.input(shape, m.dtype(), -6, 6)], {"dim": dim}, lambda x: getattr(torch, name)(x, dim), 3)


@family(6)
def norms(m):
    name = m.r.choice(("layer_norm", "rms_norm", "group_norm", "batch_norm"))
    dtype, eps = m.dtype(), m.r.choice((1e-5, 1e-3, 0.1))
    def maybe(shape):
        return m.input(shape, dtype, special=False) if m.r.random() < 0.7 else None
    if name in ("layer_norm", "rms_norm"):
        shape = m.shape(1)
        last = shape[m.r.randrange(len(shape)):]
        weight, bias = maybe(last), maybe(last)
        x = m.input(shape, dtype)
        if name == "rms_norm":
            return Case(name, [x, weight], {"shape": last, "eps": eps}, lambda x, w: F.rms_norm(x, last, w, eps), 4)
        return Case(name, [x, weight, bias], {"shape": last, "eps": eps}, lambda x, w, b: F.layer_norm(x, last, w, b, eps), 4)
    if name == "group_norm":
        groups, per = m.r.randint(1, 4), m.r.randint(1, 4)
        shape = (m.r.randint(1, 4), groups * per) + m.shape(0, 2)
        weight, bias = maybe((groups * per,)), maybe((groups * per,))
        return Case(name, [m.input(shape, dtype), weight, bias], {"groups": groups, "eps": eps}, lambda x, w, b: F.group_norm(x, groups, w, b, eps), 4)
    channels, training = m.r.randint(1, 9), m.r.random() < 0.6
    shape = (m.r.randint(1, 5), channels) + m.shape(0, 2)
    weight, bias = maybe((channels,)), maybe((channels,))
    tracked = not training or m.r.random() < 0.7
    mean = m.input((channels,), dtype, special=False, grad=False, plain=True) if tracked else None
    variance = m.input((channels,), dtype, 0.2, 3, special=False, grad=False, plain=True) if tracked else None
    momentum = m.r.choice((0.1, 0.3, 1.0))

    def call(x, w, b, mean, variance):
        mean, variance = (None, None) if mean is None else (mean.clone(), variance.clone())
        y = F.batch_norm(x, mean, variance, w, b, training, momentum, eps)
        return [y] if mean is None else [y, mean, variance]
    return Case(name, [m.input(shape, dtype), weight, bias, mean, variance], {"training": training, "momentum": momentum, "eps": eps}, call, 4)


def pair(m, low, high):
    return [m.r.randint(low, high), m.r.randint(low, high)]


@family(7)
def images(m):
    name = m.r.choice(("conv2d", "conv_transpose2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "upsample2d"))
    dtype = m.dtype()
    n, size = m.r.randint(0, 3) if m.r.random() < 0.1 else m.r.randint(1, 3), pair(m, 1, 12)
    if name in ("conv2d", "conv_transpose2d"):
        groups, a, b = m.r.choice((1, 1, 2, 3)), m.r.randint(1, 5), m.r.randint(1, 5)
        kernel, stride, padding, dilation = pair(m, 1, 4), pair(m, 1, 3), pair(m, 0, 2), pair(m, 1, 2)
        x = m.input((n, groups * a, *size), dtype, special=False)
        weight = m.input((groups * b, a, *kernel) if name == "conv2d" else (groups * a, b, *kernel), dtype, -1, 1, special=False)
        bias = m.input((groups * b,), dtype, special=False) if m.r.random() < 0.6 else None
        args = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if name == "conv2d":
            return Case(name, [x, weight, bias], args, lambda x, w, b: F.conv2d(x, w, b, **args), 4)
        args["output_padding"] = [m.r.randrange(max(stride[i], dilation[i])) for i in (0, 1)]
        return Case(name, [x, weight, bias], args, lambda x, w, b: F.conv_transpose2d(x, w, b, **args), 4)
    x = m.input((n, m.r.randint(1, 9), *size), dtype, special=None if name == "max_pool2d" else False)
    if name == "max_pool2d":
        kernel = pair(m, 1, 4)
        args = {"stride": pair(m, 1, 3), "padding": [m.r.randint(0, k // 2) for k in kernel], "dilation": pair(m, 1, 2), "ceil_mode": m.r.random() < 0.5}
        # If a window sees nothing but padding, PyTorch's backward pass writes outside its memory.
        args["padding"] = [p if d == 1 else 0 for p, d in zip(args["padding"], args["dilation"])]
        return Case(name, [x], dict(args, kernel=kernel), lambda x: F.max_pool2d(x, kernel, **args))
    if name == "avg_pool2d":
        kernel = pair(m, 1, 4)
        args = {"stride": pair(m, 1, 3), "padding": [m.r.randint(0, k // 2) for k in kernel], "ceil_mode": m.r.random() < 0.5, "count_include_pad": m.r.random() < 0.5}
        divisor = m.r.randint(1, 9) if m.r.random() < 0.2 else None
        return Case(name, [x], dict(args, kernel=kernel, **({"divisor": divisor} if divisor else {})),
                    lambda x: F.avg_pool2d(x, kernel, divisor_override=divisor, **args), 2)
    if name == "adaptive_avg_pool2d":
        out = pair(m, 1, 9)
        return Case(name, [x], {"size": out}, lambda x: F.adaptive_avg_pool2d(x, out), 2)
    out, bilinear, align = pair(m, 1, 14), m.r.random() < 0.5, m.r.random() < 0.5
    return Case(name, [x], {"size": out, "bilinear": bilinear, "align_corners": bilinear and align},
                lambda x: F.interpolate(x, out, mode="bilinear", align_corners=align) if bilinear else F.interpolate(x, out), 4)


@family(8)
def products(m):
    name = m.r.choice(("matmul", "mm", "bmm", "mv", "dot", "outer", "addmm", "linear", "embedding"))
    dtype = m.r.choice((torch.int64, torch.int32)) if m.r.random() < 0.1 and name not in ("linear", "embedding", "addmm") else m.dtype()
    n, k, l, b = (m.r.choice((0, 1, 2, 3, 5, 8, 17, 40)) if m.r.random() < 0.9 else m.r.randint(1, 70) for _ in range(4))
    def of(*shape):
        return m.input(shape, dtype, special=False)
    if name == "matmul":
        batch = m.shape(0, 2)
        first = m.r.choice(((k,), (n, k), m.broadcast(batch) + (n, k)))
        second = m.r.choice(((k,), (k, l), m.broadcast(batch) + (k, l)))
        return Case(name, [of(*first), of(*second)], {}, torch.matmul, 4)
    if name == "linear":
        lead = m.shape(0, 2)
        return Case(name, [of(*lead, k), of(l, k), of(l) if m.r.random() < 0.6 else None], {}, F.linear, 4)
    if name == "embedding":
        rows = max(n, 1)
        pad = m.r.randint(-rows, rows - 1) if m.r.random() < 0.3 else None
        return Case(name, [m.indices(m.shape(0, 2), rows), of(rows, k)], {} if pad is None else {"padding_idx": pad}, lambda i, w: F.embedding(i, w, pad), 3)
    if name == "addmm":
        args = {"beta": m.r.choice((1.0, 0.5, 0.0)), "alpha": m.r.choice((1.0, -2.0))}
        return Case(name, [m.input(m.broadcast((n, l)), dtype, special=False), of(n, k), of(k, l)], args, lambda x, a, b: torch.addmm(x, a, b, **args), 4)
    shapes = {"mm": ((n, k), (k, l)), "bmm": ((b, n, k), (b, k, l)), "mv": ((n, k), (k,)), "dot": ((k,), (k,)), "outer": ((n,), (l,))}[name]
    return Case(name, [of(*s) for s in shapes], {}, getattr(torch, name), 4)


@family(6)
def losses(m):
    name = m.r.choice(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
                       "cross_entropy", "nll_loss", "cosine_similarity", "cosine_embedding_loss"))
    dtype = m.dtype()
    reduction = m.r.choice(("none", "mean", "sum"))
    args = {"reduction": reduction}
    if name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        shape = m.shape()
        a = m.r.choice((0.0, 0.3, 1.0, 2.0) if name == "smooth_l1_loss" else (0.3, 1.0, 2.0))
        extra = {"smooth_l1_loss": {"beta": a}, "huber_loss": {"delta": a}}.get(name, {})
        return Case(name, [m.input(shape, dtype), m.input(shape, dtype)], dict(args, a=a), lambda x, t: getattr(F, name)(x, t, reduction=reduction, **extra), 3)
    if name in ("binary_cross_entropy", "binary_cross_entropy_with_logits"):
        shape = m.shape()
        logits = name.endswith("logits")
        x = m.input(shape, dtype, *((-4, 4) if logits else (0.02, 0.98)), special=False)
        t = m.input(shape, dtype, 0, 1, special=False)
        w = m.input(m.broadcast(shape), dtype, 0.1, 2, special=False, grad=False) if m.r.random() < 0.4 else None
        if not logits:
            return Case(name, [x, t, w], args, lambda x, t, w: F.binary_cross_entropy(x, t, w, reduction=reduction), 4)
        p = m.input(shape[-1:], dtype, 0.1, 2, special=False, grad=False) if m.r.random() < 0.4 and shape else None
        return Case(name, [x, t, w, p], args, lambda x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w, reduction=reduction, pos_weight=p), 4)
    if name == "kl_div":
        shape, log = m.shape(1), m.r.random() < 0.5
        x, t = m.input(shape, dtype, -4, 0, special=False), m.input(shape, dtype, *((-4, 0) if log else (0, 1)), special=False)
        if m.r.random() < 0.3:
            reduction = args["reduction"] = "batchmean"
        return Case(name, [x, t], dict(args, log_target=log), lambda x, t: F.kl_div(x, t, reduction=reduction, log_target=log), 4)
    if name in ("cross_entropy", "nll_loss"):
        classes, places = m.r.randint(1, 9), m.shape(0, 2) if m.r.random() < 0.4 else ()
        lead = (m.r.randint(1, 6),) if places or m.r.random() < 0.9 else ()
        x = m.input(lead + (classes,) + places, dtype, special=False)
        w = m.input((classes,), dtype, 0.1, 2, special=False, grad=False) if m.r.random() < 0.4 else None
        smoothing = m.r.choice((0.0, 0.1)) if name == "cross_entropy" else 0.0
        if name == "cross_entropy" and m.r.random() < 0.25:
            t = m.input(lead + (classes,) + places, dtype, 0, 1, special=False)
        else:
            t = m.indices(lead + places, classes)
        ignore = m.r.choice((-100, 0, 1))
        args.update(ignore_index=ignore, smoothing=smoothing)
        extra = {"label_smoothing": smoothing} if name == "cross_entropy" else {}
        return Case(name, [x, t, w], args, lambda x, t, w: getattr(F, name)(x, t, w, ignore_index=ignore, reduction=reduction, **extra), 4)
    if name == "cosine_similarity":
        shape = m.shape(1)
        dim, eps = m.dim(len(shape)), m.r.choice((1e-8, 0.5))
        return Case(name, [m.input(shape, dtype, special=False), m.input(shape, dtype, special=False)], {"dim": dim, "eps": eps}, lambda a, b: F.cosine_similarity(a, b, dim, eps), 6)
    n, width, margin = m.r.randint(1, 6), m.r.randint(1, 9), m.r.choice((0.0, 0.3))
    t = Input(torch.randint(0, 2, (n,), generator=m.g) * 2 - 1, (n,), (1,), 0, False)
    return Case(name, [m.input((n, width), dtype, special=False), m.input((n, width), dtype, special=False), t], dict(args, margin=margin),
                lambda a, b, t: F.cosine_embedding_loss(a, b, t, margin=margin, reduction=reduction), 8)


@family(7)
def places(m):
    name = m.r.choice(("gather", "scatter", "scatter.number", "scatter_add", "index_add", "index_select", "take", "take_along_dim", "masked_select",
                       "nonzero", "one_hot", "index", "index_put_", "logical_not", "bitwise_not", "isnan", "isinf", "isfinite", "isclose"))
    dtype = m.dtype(ALL) if m.r.random() < 0.3 else m.dtype()
    shape = tuple(max(n, 1) for n in m.shape(1))
    dim = m.dim(len(shape))
    x = m.input(shape, dtype)
    size = shape[dim]
    if name in ("gather", "scatter", "scatter.number", "scatter_add"):
        index_shape = [m.r.randint(0 if m.r.random() < 0.05 else 1, n) for n in shape]
        if name == "gather":
            index_shape[dim] = m.r.randint(1, 9)
            return Case(name, [x, m.indices(index_shape, size)], {"dim": dim}, lambda x, i: torch.gather(x, dim, i), 3)
        index = m.indices(index_shape, size)
        if name != "scatter_add":  # each place once, as it is not said which of several stays
            wanted = torch.stack([torch.randperm(size, generator=m.g) for _ in range(max(1, math.prod(index_shape) // max(1, index_shape[dim])))])
            rest = [n for d, n in enumerate(index_shape) if d != dim % len(shape)]
            index.memory = wanted[:, :index_shape[dim]].reshape(rest + [index_shape[dim]] if math.prod(index_shape) else [0] * 0 + rest + [index_shape[dim]]).movedim(-1, dim).contiguous().flatten() if math.prod(index_shape) else index.memory
        if name == "scatter.number":
            value = m.number(dtype)
            return Case(name, [x, index], {"dim": dim, "value": value}, lambda x, i: x.scatter(dim, i, value))
        # PyTorch has no gradient for a source that is larger than the index.
        larger = m.r.random() < 0.3
        source = m.input([n + m.r.choice((0, 1)) * larger for n in index_shape], dtype, grad=False if larger else None)
        return Case(name, [x, index, source], {"dim": dim}, lambda x, i, s: getattr(x, name)(dim, i, s), 3)
    if name in ("index_add", "index_select"):
        index = m.indices((m.r.randint(0, 6),), size)
        if name == "index_select":
            return Case(name, [x, index], {"dim": dim}, lambda x, i: x.index_select(dim, i), 3)
        source_shape = list(shape)
        source_shape[dim] = index.shape[0]
        alpha = m.r.choice((1, 2, -1.5)) if dtype.is_floating_point else 1
        return Case(name, [x, index, m.input(source_shape, dtype)], {"dim": dim, "alpha": alpha}, lambda x, i, s: x.index_add(dim, i, s, alpha=alpha), 3)
    if name == "take":
        return Case(name, [x, m.indices(m.shape(0, 2), math.prod(shape), True)], {}, torch.take, 3)
    if name == "take_along_dim":
        index_shape = [1 if m.r.random() < 0.3 else n for n in shape]
        index_shape[dim] = m.r.randint(1, 5)
        return Case(name, [x, m.indices(index_shape, size)], {"dim": dim}, lambda x, i: torch.take_along_dim(x, i, dim), 3)
    if name == "masked_select":
        return Case(name, [x, m.input(m.broadcast(shape), torch.bool)], {}, torch.masked_select)
    if name == "one_hot":
        classes = m.r.randint(1, 7)
        return Case(name, [m.indices(shape[:2], classes)], {"classes": m.r.choice((classes, -1))}, None)
    if name == "index":
        mask = m.r.random() < 0.4
        i = m.input(shape[:m.r.randint(1, len(shape))], torch.bool) if mask else m.indices(m.shape(0, 2), shape[0], True)
        return Case(name, [x, i], {}, lambda x, i: x[i], 3)
    if name == "index_put_":
        i = m.input(shape[:m.r.randint(1, len(shape))], torch.bool) if m.r.random() < 0.5 else Input(torch.randperm(shape[0], generator=m.g)[:3], (min(3, shape[0]),), (1,), 0, False)
        value = m.input(() if m.r.random() < 0.5 else shape[len(i.shape):] if i.memory.dtype == torch.bool else shape[1:], dtype)

        def put(x, i, v):
            y = x.clone()
            y[i] = v
            return y
        return Case(name, [x, i, value], {}, put, 2)
    if name == "isclose":
        args = {"rtol": m.r.choice((1e-5, 0.1)), "atol": m.r.choice((1e-8, 0.5)), "equal_nan": m.r.random() < 0.5}
        return Case(name, [x, m.input(m.broadcast(shape), dtype)], args, lambda a, b: torch.isclose(a, b, **args))
    return Case(name, [x], {}, getattr(torch, name))


@family(10)
def shapes(m):
    name = m.r.choice(("split", "split.sizes", "chunk", "unbind", "movedim", "T", "mT", "reshape", "view", "flatten", "transpose", "permute", "select", "slice",
                       "narrow", "expand", "squeeze", "unsqueeze", "repeat", "tile", "repeat_interleave", "repeat_interleave.tensor", "flip", "roll", "tril",
                       "triu", "diagonal", "diag", "pad", "cat", "stack", "to", "clone", "contiguous", "copy_", "fill_", "full", "arange", "linspace", "eye"))
    r = m.r
    dtype = m.dtype(ALL) if r.random() < 0.3 else m.dtype()
    shape = m.shape(1)
    rank, dim = len(shape), m.dim(len(shape))
    x = m.input(shape, dtype)
    size = shape[dim]
    def case(call, **args):
        return Case(name, [x], args, call, 2)
    if name == "split":
        n = r.randint(1, 4)
        return case(lambda x: list(x.split(n, dim)), size=n, dim=dim)
    if name == "split.sizes":
        cut = r.randint(0, size)
        sizes = [cut, size - cut]
        return case(lambda x: list(x.split(sizes, dim)), sizes=sizes, dim=dim)
    if name == "chunk":
        n = r.randint(1, 5)
        return case(lambda x: list(x.chunk(n, dim)), chunks=n, dim=dim)
    if name == "unbind":
        return case(lambda x: list(x.unbind(dim)), dim=dim)
    if name in ("movedim", "transpose"):
        a, b = m.dim(rank), m.dim(rank)
        return case(lambda x: getattr(x, name)(a, b), **{"from": a, "to": b})
    if name == "T":
        return case(lambda x: x.permute(*reversed(range(x.dim()))))
    if name == "mT":
        x.shape, x.strides = (x.shape * 2)[:2] if rank < 2 else x.shape, x.strides
        return case(lambda x: x.mT) if rank >= 2 else clone_case(m)
    if name in ("reshape", "view"):
        wanted = [n for n in itertools.chain.from_iterable(((n,) if n < 4 or n % 2 else (2, n // 2)) for n in shape)]
        r.random() < 0.5 and wanted and wanted.__setitem__(r.randrange(len(wanted)), -1)
        return case(lambda x: getattr(x, name)(wanted), shape=wanted)
    if name == "flatten":
        a = r.randint(0, rank - 1)
        b = r.randint(a, rank - 1)
        return case(lambda x: x.flatten(a, b), **{"from": a, "to": b})
    if name == "permute":
        dims = r.sample(range(rank), rank)
        return case(lambda x: x.permute(dims), dims=dims)
    if name == "select":
        i = r.randint(-size, size - 1) if size else 0
        return case(lambda x: x.select(dim, i), dim=dim, index=i)
    if name == "slice":
        a, b, s = r.randint(-6, 6), r.randint(-6, 9), r.randint(1, 3)
        return case(lambda x: torch.ops.aten.slice(x, dim, a, b, s), dim=dim, start=a, stop=b, step=s)
    if name == "narrow":
        a = r.randint(0, size)
        n = r.randint(0, size - a)
        return case(lambda x: x.narrow(dim, a, n), dim=dim, start=a, length=n)
    if name == "expand":
        wanted = [r.randint(1, 3)] * r.randint(0, 2) + [r.randint(1, 3) if n == 1 else r.choice((n, -1)) for n in shape]
        return case(lambda x: x.expand(wanted), shape=wanted)
    if name == "squeeze":
        return case(lambda x: x.squeeze(dim), dim=dim) if r.random() < 0.5 else case(lambda x: x.squeeze())
    if name == "unsqueeze":
        d = r.randint(-rank - 1, rank)
        return case(lambda x: x.unsqueeze(d), dim=d)
    if name in ("repeat", "tile"):
        n = [r.randint(0 if r.random() < 0.1 else 1, 3) for _ in range(r.randint(0 if name == "tile" else rank, rank + 1))]
        return case(lambda x: getattr(x, name)(n), repeats=n)
    if name == "repeat_interleave":
        n = r.randint(0, 3)
        return case(lambda x: x.repeat_interleave(n, dim), repeats=n, dim=dim) if r.random() < 0.6 else case(lambda x: x.repeat_interleave(n), repeats=n)
    if name == "repeat_interleave.tensor":
        counts = m.indices((size,), 4)
        return Case(name, [x, counts], {"dim": dim}, lambda x, n: x.repeat_interleave(n, dim), 2)
    if name == "flip":
        dims = r.sample(range(rank), r.randint(0, rank))
        return case(lambda x: x.flip(dims), dims=dims)
    if name == "roll":
        dims = r.sample(range(rank), r.randint(0, rank))
        shifts = [r.randint(-5, 9) for _ in dims] or [r.randint(-5, 9)]
        return case(lambda x: x.roll(shifts, dims) if dims else x.roll(shifts), shifts=shifts, dims=dims)
    if name in ("tril", "triu"):
        k = r.randint(-3, 3)
        if rank < 2:
            return clone_case(m)
        return case(lambda x: getattr(x, name)(k), diagonal=k)
    if name == "diagonal":
        if rank < 2:
            return clone_case(m)
        a, b = r.sample(range(rank), 2)
        k = r.randint(-2, 2)
        return case(lambda x: x.diagonal(k, a, b), offset=k, dim1=a, dim2=b)
    if name == "diag":
        k, x = r.randint(-2, 2), m.input(m.shape(1, 2), dtype)
        return Case(name, [x], {"diagonal": k}, lambda x: x.diag(k), 2)
    if name == "pad":
        mode = r.choice(("constant", "constant", "reflect", "replicate", "circular"))
        if mode == "constant":
            pads, value = [r.randint(-1, 3) for _ in range(2 * r.randint(1, rank))], m.number(dtype)
            return case(lambda x: F.pad(x, pads, value=value), pads=pads, mode=mode, value=value)
        x.grad = dtype.is_floating_point
        lead = m.input((2, 3) + tuple(r.randint(3, 6) for _ in range(r.randint(1, 2))), dtype if dtype.is_floating_point else torch.float32)
        pads = [r.randint(0, 2) for _ in range(2 * (len(lead.shape) - 2))]
        return Case(name, [lead], {"pads": pads, "mode": mode}, lambda x: F.pad(x, pads, mode=mode), 3)
    if name in ("cat", "stack"):
        parts = [m.input(shape, dtype if r.random() < 0.8 else m.dtype(ALL)) for _ in range(r.randint(1, 4))]
        if name == "cat":
            for i, part in enumerate(parts):
                other = list(shape)
                other[dim] = r.randint(0, 4)
                parts[i] = m.input(other, part.memory.dtype)
        return Case(name, parts, {"dim": dim}, lambda *p: getattr(torch, name)(p, dim), 2)
    if name == "to":
        x = m.input(shape, m.dtype(ALL), special=None if dtype.is_floating_point else False)
        # The value of a floating number that an integer dtype does not hold is not said.
        wanted = m.dtype(ALL if not x.memory.is_floating_point() else FLOATS + [torch.bool])
        return Case(name, [x], {"dtype": str(wanted)[6:]}, lambda x: x.to(wanted), 2)
    if name == "copy_":
        source = m.input(m.broadcast(shape), m.dtype(FLOATS))
        target = m.input(shape, m.dtype(FLOATS))
        return Case(name, [target, source], {}, lambda a, b: a.clone().copy_(b), 2)
    if name == "fill_":
        value = m.number(dtype)
        return case(lambda x: x.clone().fill_(value), value=value)
    wanted = m.dtype(ALL)
    kind = {"dtype": str(wanted)[6:]}
    if name == "full":
        value = m.number(wanted)
        return Case(name, [], dict(kind, shape=shape, value=value), lambda: torch.full(shape, value, dtype=wanted))
    if name == "arange":
        wanted = m.dtype(FLOATS + INTEGERS[:3])
        numbers = [r.choice((0, 1, -3, 0.5, 10)), r.choice((0, 7, 20, -4, 2.75)), r.choice((1, 2, -1, 0.3, 3))]
        return Case(name, [], dict(dtype=str(wanted)[6:], **dict(zip(("start", "end", "step"), numbers))), lambda: torch.arange(*numbers, dtype=wanted), 2)
    if name == "linspace":
        a, b, n, wanted = r.uniform(-5, 5), r.uniform(-5, 5), r.randint(0, 50), m.dtype(FLOATS)
        return Case(name, [], {"start": a, "end": b, "steps": n, "dtype": str(wanted)[6:]}, lambda: torch.linspace(a, b, n, dtype=wanted), 2)
    if name == "eye":
        rows, columns = r.randint(0, 5), r.randint(0, 5)
        return Case(name, [], dict(kind, rows=rows, columns=columns), lambda: torch.eye(rows, columns, dtype=wanted))
    return case(lambda x: getattr(x, name)())


def clone_case(m):
    return Case("clone", [m.input(m.shape(), m.dtype(ALL))], {}, torch.clone)


def draw(seed, families=()):
    m = Maker(seed)
    drawn = [(weight, f) for weight, f in FAMILIES if not families or f.__name__ in families]
    f = m.r.choices([f for _, f in drawn], [w for w, _ in drawn])[0]
    case = f(m)
    if case.op == "one_hot":
        case.call = lambda i: F.one_hot(i, case.args["classes"])
    return case
