#!/usr/bin/env python3
"""Makes the small PyTorch files that the tests of nn/serialize read. The results are committed; this is run again only
when a test needs another file, in an environment with torch:

    python tests/nn/serialize/make_files.py

Written with torch 2.15.
"""
import collections
import functools
import io
import pathlib
import zipfile

import torch
from torch import nn

FILES = pathlib.Path(__file__).resolve().parent / "files"
DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
          "uint64", "bool"]


def values():
    base = torch.arange(12, dtype=torch.float32)
    linear = nn.Linear(3, 2)
    with torch.no_grad():
        linear.weight.copy_(torch.arange(6.0).reshape(2, 3))
        linear.bias.copy_(torch.tensor([0.5, -0.5]))
    return {
        "dtypes": {name: (torch.arange(6) - 2).reshape(2, 3).to(getattr(torch, name)) for name in DTYPES},
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
        "empty_view": base.reshape(3, 4)[3:, 2:4],  # begins behind the storage's end
        "rows": base.reshape(3, 4),
        "columns": base.reshape(3, 4).t(),
        "part": base[5:8],
        "every_second": base[::2],
        "image": torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
        "parameter": nn.Parameter(torch.tensor([1.0, 2.0])),
        "frozen": nn.Parameter(torch.tensor([3.0]), requires_grad=False),
        "linear": linear.state_dict(),  # an OrderedDict with _metadata
        "numbers": [0, 255, 256, -1, 70000, -(2**31), 2**40, -(2**63), 2**63 - 1],
        "floats": (0.1, float("inf"), -0.0),
        "flags": [True, False, None],
        "text": "Grüße \U0001f600",
        "long": "x" * 300,
        "size": torch.Size([2, 3]),
        "empty_things": [[], (), {}, collections.OrderedDict(), ""],
        "nested": {0: [{"a": (1, [2])}], 1: (True,), -5: {}},
    }


def others():
    """What torch.load(weights_only=True) takes beside the values above."""
    described = torch.tensor([1.0, 2.0])
    described.unit = "mm"
    stated = nn.Parameter(torch.tensor([3.0]))
    stated.unit = "kg"
    return {
        "counter": collections.Counter({2: 2, 5: 1}),
        "ordered": collections.OrderedDict(a=1),
        "devices": [torch.device("cpu"), torch.device("cuda", 1)],
        "dtypes": (torch.float32, torch.float8_e4m3fn, torch.complex64),
        "layout": torch.strided,
        "integers": [2**63, 2**64 - 1, -(2**63) - 1, -(2**64), 2**200, -(2**200), 10**30],
        "bytes": bytes(range(256)),
        "bytearray": bytearray(b"\x00\xff"),
        "set": {7},
        "empty_set": set(),
        "complex": 1.5 - 2j,
        "keys": {None: 1, True: 2, 2.5: 3, (1, "a"): 4, 2**64: 5, torch.float32: 6, 3: 7},
        "described": described,
        "stated": stated,
    }


def warmup_stable_decay(step, warmup, stable, decay):
    """As get_wsd_schedule() of Hugging Face's transformers gives to LambdaLR; "linear" in both directions."""
    return min(1, step / warmup, max(0, 1 - (step - warmup - stable) / decay))


def schedulers():
    """Schedulers after four steps, with their optimizer, and the rates of each further step."""
    from torch.optim import lr_scheduler as L
    from torch.optim.swa_utils import SWALR
    makers = {
        "StepLR": lambda o: L.StepLR(o, 3, 0.5),
        "MultiStepLR": lambda o: L.MultiStepLR(o, [2, 5, 5, 7]),
        "ConstantLR": lambda o: L.ConstantLR(o, 0.25, 6),
        "LinearLR": lambda o: L.LinearLR(o, 0.25, 0.75, 7),
        "ExponentialLR": lambda o: L.ExponentialLR(o, 0.8),
        "PolynomialLR": lambda o: L.PolynomialLR(o, 8, 2.0),
        "CosineAnnealingLR": lambda o: L.CosineAnnealingLR(o, 7, 0.01),
        "CosineAnnealingWarmRestarts": lambda o: L.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
        "SWALR": lambda o: SWALR(o, 0.05, 6, "linear"),
        "LambdaLR": lambda o: L.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
        "WarmupStableDecayLR": lambda o: L.LambdaLR(o, functools.partial(warmup_stable_decay, warmup=3, stable=2, decay=4)),
        "CyclicLR": lambda o: L.CyclicLR(o, 0.01, 0.1, 3, 2, mode="triangular2"),
        "OneCycleLR": lambda o: L.OneCycleLR(o, [0.5, 0.3], 12, pct_start=0.25, three_phase=True),
        "SequentialLR": lambda o: L.SequentialLR(o, [L.ConstantLR(o, 0.1, 2), L.ExponentialLR(o, 0.8)], [5]),
        "ChainedScheduler": lambda o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 6), L.ExponentialLR(o, 0.8)]),
        "ReduceLROnPlateau": lambda o: L.ReduceLROnPlateau(o, factor=0.5, patience=1, cooldown=1),
    }
    saved = {}
    for name, make in makers.items():
        p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(1))
        opt = torch.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.2}], lr=0.1, momentum=0.9)
        scheduler = make(opt)
        def step():
            opt.step()
            scheduler.step(1.0) if name == "ReduceLROnPlateau" else scheduler.step()
        for _ in range(4):
            step()
        saved[name] = {"optimizer": opt.state_dict(), "scheduler": dict(scheduler.state_dict())}
        saved[name] = torch.load(kept(saved[name]), weights_only=True)  # as it is now
        rates = []
        for _ in range(6):
            step()
            rates.append([group["lr"] for group in opt.param_groups])
        saved[name]["rates"] = rates
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_factor=3.0, growth_interval=7)
    saved["GradScaler"] = scaler.state_dict() | {"_growth_tracker": 5}
    return saved


def kept(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def rewritten(name, compression=zipfile.ZIP_STORED, root="other/folder", big=False, zip64=False):
    """values.pth by another program: another folder, other packing, another byte order."""
    widths = {}
    with zipfile.ZipFile(FILES / "values.pth") as source:
        if big:
            def note(tensor):
                key = str(len(widths))
                widths[key] = tensor.element_size()
            # torch.save numbers storages in the order in which it meets them.
            seen = set()
            def walk(value):
                if isinstance(value, torch.Tensor):
                    pointer = value.untyped_storage()._cdata
                    if pointer not in seen:
                        seen.add(pointer)
                        note(value)
                elif isinstance(value, dict):
                    for each in value.values():
                        walk(each)
                elif isinstance(value, (list, tuple)):
                    for each in value:
                        walk(each)
            walk(torch.load(FILES / "values.pth", weights_only=True))
        with zipfile.ZipFile(FILES / name, "w", compression) as target:
            for item in source.infolist():
                data = source.read(item)
                inner = item.filename.split("/", 1)[1]
                if big and inner == "byteorder":
                    data = b"big"
                if big and inner.startswith("data/"):
                    width = widths[inner[5:]]
                    data = b"".join(data[i:i + width][::-1] for i in range(0, len(data), width))
                info = zipfile.ZipInfo(f"{root}/{inner}")
                info.compress_type = compression
                with target.open(info, "w", force_zip64=zip64) as out:
                    out.write(data)


def optimizer(name, make, steps=3):
    """A model and an optimizer after some steps, the gradients of the next, and the parameters after it."""
    torch.manual_seed(1)
    model = nn.Linear(3, 2)
    opt = make(model.parameters())
    def step():
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        opt.step()
    for _ in range(steps):
        step()
    # What torch.save keeps must not change with the step that follows.
    saved = {"model": {k: v.clone() for k, v in model.state_dict().items()}, "epoch": 3}
    state = opt.state_dict()
    saved["optimizer"] = {
        "state": {k: {n: t.clone() if torch.is_tensor(t) else t for n, t in v.items()} for k, v in state["state"].items()},
        "param_groups": state["param_groups"],
    }
    step()
    saved["gradients"] = [p.grad for p in model.parameters()]
    saved["after"] = {k: v.clone() for k, v in model.state_dict().items()}
    torch.save(saved, FILES / f"{name}.pth")


def main():
    FILES.mkdir(exist_ok=True)
    everything = values()
    torch.save(everything, FILES / "values.pth")
    torch.save(everything, FILES / "protocol4.pth", pickle_protocol=4)
    torch.save(others(), FILES / "others.pth")
    torch.save(others(), FILES / "others4.pth", pickle_protocol=4)
    assert torch.load(FILES / "others.pth", weights_only=True)["bytearray"] == b"\x00\xff"
    torch.save(schedulers(), FILES / "schedulers.pth")
    # The format before PyTorch 1.6.
    torch.save(everything, FILES / "legacy.pth", _use_new_zipfile_serialization=False)
    torch.save(everything, FILES / "legacy4.pth", _use_new_zipfile_serialization=False, pickle_protocol=4)
    torch.save(nn.Linear(3, 2), FILES / "module.pth")
    torch.save({"z": torch.zeros(2, dtype=torch.complex64)}, FILES / "complex.pth")
    torch.save({"z": torch.zeros(2, dtype=torch.float8_e4m3fn)}, FILES / "float8.pth")
    rewritten("deflated.pth", zipfile.ZIP_DEFLATED)
    rewritten("zip64.pth", zip64=True)
    rewritten("big_endian.pth", big=True)
    optimizer("sgd", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True))
    optimizer("sgd_plain", lambda p: torch.optim.SGD(p, lr=0.1))
    optimizer("adam", lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-4))
    optimizer("adamw", lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.3))
    optimizer("amsgrad", lambda p: torch.optim.Adam(p, lr=0.02, amsgrad=True))
    optimizer("maximize", lambda p: torch.optim.Adam(p, lr=0.02, maximize=True))
    optimizer("nadam", lambda p: torch.optim.NAdam(p, lr=0.02, weight_decay=0.1, decoupled_weight_decay=True))
    optimizer("radam", lambda p: torch.optim.RAdam(p, lr=0.02, betas=(0.8, 0.95), weight_decay=0.1, decoupled_weight_decay=True), steps=8)
    optimizer("rmsprop", lambda p: torch.optim.RMSprop(p, lr=0.02, momentum=0.9, centered=True))
    optimizer("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.02, lr_decay=0.1))


if __name__ == "__main__":
    main()
