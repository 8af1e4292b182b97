#!/usr/bin/env python3
"""Makes the arrays that the parity tests compare with, from PyTorch. The results are committed; this is run again only
when a test needs another array, in an environment with torch, numpy and safetensors:

    python tests/parity/make_arrays.py [topic...]

Each topic is one function below and one file arrays/<topic>.safetensors. Written with torch 2.15 on a CPU with AVX2 that
is not Intel's: on those PyTorch draws bernoulli_(p) from MKL instead of its own generator.
"""
import csv
import gzip
import hashlib
import io
import json
import math
import pathlib
import re
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import DistributedSampler, RandomSampler, WeightedRandomSampler, random_split

ARRAYS = pathlib.Path(__file__).resolve().parent / "arrays"
ROOT = ARRAYS.parents[2]


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
    weights = torch.tensor([[0.1, 5, 0, 2.5, 0.7], [3, 0, 0, 1, 1e-3]])
    for dtype in ("float32", "float64", "float16"):
        w = weights.to(getattr(torch, dtype))
        a[f"multinomial_{dtype}"] = torch.multinomial(w, 60, True, generator=seeded(123))
        a[f"multinomial_row_{dtype}"] = torch.multinomial(w[0], 70, True, generator=seeded(123))
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
    g = seeded(5)
    weighted = WeightedRandomSampler([0.1, 5, 0, 2.5, 0.7], 60, generator=g)
    a["weighted"], a["weighted_again"] = list(weighted), list(weighted)
    g = seeded(42)
    for i, part in enumerate(random_split(range(103), [0.5, 0.3, 0.2], generator=g)):
        a[f"split_shares_{i}"] = part.indices
    a["split_numbers_1"] = random_split(range(103), [100, 3], generator=g)[1].indices
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


def npy():
    """nn/serialize: NAME.npy, a file's bytes as NumPy writes them, and NAME, what it holds."""
    values = np.arange(-3, 9).reshape(3, 4)
    a = {}

    def add(name, array, version=None, wanted=None):
        file = io.BytesIO()
        np.lib.format.write_array(file, array, version)
        a[name + ".npy"] = torch.tensor(list(file.getvalue()), dtype=torch.uint8)
        if wanted is not False:
            a[name] = torch.from_numpy(np.ascontiguousarray(array if wanted is None else wanted).reshape(array.shape))

    for code in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        add(code, (values * 0.5).astype(code) if code[0] == "f" else values.astype(code))
        if code[1] != "1":
            add("big_" + code, values.astype(">" + code), wanted=values.astype(code))
    add("bool", values % 2 == 0)
    add("fortran", np.asfortranarray(values.astype("f4")))
    cube = np.arange(24, dtype="i4").reshape(2, 3, 4)
    add("fortran_cube", np.asfortranarray(cube.astype(">i4")), wanted=cube)
    add("version2", values.astype("f4"), (2, 0))
    add("version3", values.astype("f4"), (3, 0))
    add("scalar", np.array(2.5))
    add("vector", np.arange(3, dtype="f4"))
    add("empty", np.zeros((0, 3), "f4"))
    for name, array in {"complex": values.astype("c8"), "text": np.array(["ab"]), "dates": np.array(["2024-01-01"], "M8[D]"),
                        "records": np.zeros(2, [("x", "f4"), ("y", "i4")]), "raw": np.zeros(2, "V2"),
                        "long_double": np.zeros(2, "f16"), "objects": np.array([None])}.items():
        add("refused_" + name, array, wanted=False)
    return a


def pictures():
    """nn/data/readers: NAME.file, a file's bytes, and NAME, its colours by Pillow."""
    import struct
    import zlib

    from PIL import Image

    y, x = np.mgrid[0:9, 0:13]
    smooth = np.stack([x * 19, y * 28, (x + y) * 12], 2).astype("u1")
    a = {}

    def add(name, image, form, wanted=True, **options):
        file = io.BytesIO()
        image.save(file, form, **options)
        a[name + ".file"] = torch.tensor(list(file.getvalue()), dtype=torch.uint8)
        if wanted:
            a[name] = torch.from_numpy(np.array(Image.open(file).convert("RGB"))).permute(2, 0, 1).contiguous()
        return file.getvalue()

    rgb = Image.fromarray(smooth)
    whole = add("png_rgb", rgb, "PNG")
    add("png_grey", rgb.convert("L"), "PNG")
    add("png_1_bit", rgb.convert("1"), "PNG")
    add("png_palette", rgb.quantize(5), "PNG")
    add("png_palette_transparent", rgb.quantize(5), "PNG", transparency=2)
    add("png_rgba", Image.fromarray(np.dstack([smooth, (x * 19).astype("u1")])), "PNG")
    add("png_grey_alpha", Image.fromarray(np.dstack([smooth[:, :, 0], (y * 28).astype("u1")]), "LA"), "PNG")
    add("jpeg_rgb", rgb, "JPEG", quality=90)
    add("jpeg_444", rgb, "JPEG", quality=95, subsampling=0)
    add("jpeg_grey", rgb.convert("L"), "JPEG", quality=90)
    photo = add("jpeg_progressive", rgb, "JPEG", quality=90, progressive=True)
    add("jpeg_cmyk", rgb.convert("CMYK"), "JPEG", quality=95)
    add("jpeg_cmyk_420", rgb.convert("CMYK"), "JPEG", quality=95, subsampling=2)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def png(width, height, depth, colour, interlaced, rows):
        return (whole[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

    deep = (smooth.astype(">u2") << 8 | 0x5A).astype(">u2")
    files = {"png_16_bit": (png(13, 9, 16, 2, 0, b"".join(b"\0" + row.tobytes() for row in deep)), smooth),
             "png_bomb": (png(100000, 100000, 8, 2, 0, b""), None), "png_large": (png(10000, 10000, 8, 2, 0, b""), None)}
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))  # x, y, steps
    parts = [smooth[y0::dy, x0::dx] for x0, y0, dx, dy in passes]
    files["png_interlaced"] = png(13, 9, 8, 2, 1, b"".join(b"\0" + row.tobytes() for part in parts if part.size for row in part)), smooth
    frame = photo.index(b"\xff\xc2")  # the progressive frame's header: marker, length, depth, height, width
    files["jpeg_bomb"] = photo[:frame + 5] + struct.pack(">HH", 65500, 65500) + photo[frame + 9:], None

    # What libjpeg only warns of: no marker may follow the pixels but the last one, and so on. Pillow says nothing.
    good = rgb.resize((48, 40))
    file = io.BytesIO()
    good.save(file, "JPEG", quality=90, restart_marker_blocks=2)
    data = file.getvalue()
    scan, second = data.index(b"\xff\xda") + 40, data.index(b"\xff\xd1")
    frame = data.index(b"\xff\xc0")

    def with_factors(*factors):  # of the components' sampling: 0x21 is 2 across and 1 down
        other = bytearray(data)
        other[frame + 11:frame + 20:3] = factors
        return bytes(other)

    warned = {"extraneous_end": data[:-2] + b"abcd" * 8 + data[-2:], "extraneous_start": data[:20] + b"\0\0" + data[20:],
              "no_restart": data[:second] + data[second + 2:], "other_restart": data[:second + 1] + b"\xd5" + data[second + 2:],
              "early_end": data[:scan] + b"\xff\xd9" + data[scan:], "bad_code": data[:scan] + b"\xfe" * 4 + data[scan + 4:],
              "factors_112": with_factors(0x11, 0x21, 0x11), "factors_212": with_factors(0x21, 0x11, 0x21)}
    for name, bad in warned.items():
        files["jpeg_warned_" + name] = bad, np.array(Image.open(io.BytesIO(bad)).convert("RGB"))
    files["jpeg_fractions"] = with_factors(0x31, 0x21, 0x11), None
    grey = np.array([[0, 1, 127, 128, 255, 256, 257, 511, 0x7fff, 0x8000, 0xfffe, 0xffff, 200]], ">u2").repeat(9, 0)
    for name, interlaced in (("png_16_bit_grey", 0), ("png_16_bit_grey_interlaced", 1)):
        rows = [grey] if not interlaced else [grey[y0::dy, x0::dx] for x0, y0, dx, dy in passes]
        bad = png(13, 9, 16, 0, interlaced, b"".join(b"\0" + row.tobytes() for part in rows if part.size for row in part))
        files[name] = bad, np.array(Image.open(io.BytesIO(bad)).convert("RGB"))
    for name, (data, wanted) in files.items():
        a[name + ".file"] = torch.tensor(list(data), dtype=torch.uint8)
        if wanted is not None:
            a[name] = torch.from_numpy(wanted).permute(2, 0, 1).contiguous()
            assert name == "png_16_bit" or (np.array(Image.open(io.BytesIO(data)).convert("RGB")) == wanted).all()
    return a


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


def text(value):
    """A text as the bytes of an array."""
    return torch.tensor(list(value.encode()), dtype=torch.uint8)


def sha256(tensor):
    """What stands for an array that is too large to commit."""
    return torch.tensor(list(hashlib.sha256(tensor.detach().numpy().tobytes()).digest()), dtype=torch.uint8)


def mlp():
    return nn.Sequential(nn.Linear(50, 30), nn.ReLU(), nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 3))


def book_cnn(channels=1, size=28):
    return nn.Sequential(nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(64 * (size // 4) ** 2, 512), nn.ReLU(), nn.Linear(512, 10))


class Block(nn.Module):
    """A module with a parameter, a buffer and a shared weight of its own, for names and their order."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(2))
        self.fc = nn.Linear(4, 3, bias=False)
        self.scale = nn.Parameter(torch.ones(3))
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Identity())
        self.register_buffer("scratch", torch.zeros(1), persistent=False)
        self.tied = nn.Linear(4, 3, bias=False)
        self.tied.weight = self.fc.weight

    def extra_repr(self):
        return "width=3\nsteps=2"


def modules():
    """nn/module, nn/layers, nn/models: initial values, texts and names. Seed 123 unless the name says otherwise."""
    a = {}
    for name, make in (("mlp", mlp), ("cnn", book_cnn), ("cnn_cifar", lambda: book_cnn(3, 32))):
        torch.manual_seed(123)
        model = make()
        a[f"{name}.text"] = text(repr(model))
        a[f"{name}.keys"] = text("\n".join(model.state_dict()))
        for key, value in model.state_dict().items():
            a[f"{name}.{key}.sha256"] = sha256(value)
            a[f"{name}.{key}.head"] = value.flatten()[:8].clone()
    a["block.text"] = text(repr(Block()))
    a["block.keys"] = text("\n".join(Block().state_dict()))
    a["block.parameters"] = text("\n".join(n for n, _ in Block().named_parameters()))
    a["block.buffers"] = text("\n".join(n for n, _ in Block().named_buffers()))
    a["block.modules"] = text("\n".join(n for n, _ in Block().named_modules()))
    layers = (nn.Linear(5, 2), nn.Linear(5, 2, bias=False), nn.Conv2d(1, 32, 3), nn.Conv2d(4, 8, (3, 5), stride=2, padding=(0, 1), bias=False),
              nn.Conv2d(4, 8, 3, dilation=2, groups=2), nn.ReLU(), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.MaxPool2d((3, 2), stride=2, padding=1),
              nn.MaxPool2d(3, stride=(2, 1), dilation=2, ceil_mode=True), nn.Flatten(), nn.Flatten(0, 2), nn.Dropout(), nn.Dropout(0.0),
              nn.Dropout(1e-05), nn.Identity(), nn.Sequential(), nn.Sequential(nn.Sequential(nn.ReLU()), nn.Identity()))
    a["layers.text"] = text("\n".join(map(repr, layers)))
    for name, fill in (("uniform", lambda w: nn.init.uniform_(w, -2, 3)), ("normal", lambda w: nn.init.normal_(w, 1, 0.5)),
                       ("xavier_uniform", lambda w: nn.init.xavier_uniform_(w, gain=2)), ("xavier_normal", nn.init.xavier_normal_),
                       ("kaiming_uniform", lambda w: nn.init.kaiming_uniform_(w, a=0.2, mode="fan_out")),
                       ("kaiming_normal", nn.init.kaiming_normal_)):
        torch.manual_seed(123)
        a[f"init.{name}"] = fill(torch.empty(4, 3, 3, 3))
    torch.manual_seed(123)
    a["dropout"] = F.dropout(torch.arange(40, dtype=torch.float32) + 1, 0.3)
    return a


def networks():
    """nn/models: torchvision's DenseNet121, EfficientNet-B0, ResNet-18 and ResNet-50. Keys and a digest of each initial value (seed 123);
    then, after one pass of the features in training mode, the logits in evaluation, and gradients of the mean of their squares."""
    from torchvision.models import densenet121, efficientnet_b0, resnet18, resnet50

    a = {"input": torch.randn(2, 3, 64, 64, generator=seeded(1))}
    for name, make in (("densenet121", densenet121), ("efficientnet_b0", lambda: efficientnet_b0(stochastic_depth_prob=0)),
                       ("resnet18", resnet18), ("resnet50", resnet50)):
        torch.manual_seed(123)
        model = make()
        a[f"{name}.keys"] = text("\n".join(model.state_dict()))
        a[f"{name}.sha256"] = torch.stack([sha256(value) for value in model.state_dict().values()])
        with torch.no_grad():
            getattr(model, "features", model)(a["input"])
        model.eval()
        logits = model(a["input"])
        logits.square().mean().backward()
        a[f"{name}.logits"] = logits.detach()
        parameters = list(model.parameters())
        a[f"{name}.first_gradient"] = parameters[0].grad
        a[f"{name}.last_gradient"] = parameters[-1].grad
    return a


def keys(model):
    return text("\n".join(model.state_dict()))


def first_steps(a, name, make, draw, loss, forward=lambda model, *batch: model(*batch), lr=0.1, evaluate=False):
    """Of a model from seed 123: keys, and a digest of each initial value; then, in float64 and of what draw() gives next, the first
    numbers of the output, the norm of each gradient, and the losses of five steps of SGD with momentum 0.9. `evaluate`: after the first step in
    evaluation mode, because batch norm of few numbers magnifies rounding from step to step."""
    torch.manual_seed(123)
    model = make()
    a[f"{name}.keys"] = keys(model)
    a[f"{name}.sha256"] = torch.stack([sha256(value) for value in model.state_dict().values()])
    model.double()
    batch = [x.double() if x.is_floating_point() else x for x in draw()]
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for step in range(5):
        opt.zero_grad()
        output = forward(model, *batch)
        value = loss(output, *batch)
        value.backward()
        if step == 0:
            a[f"{name}.head"] = output.detach().flatten()[:32].clone()
            a[f"{name}.norms"] = torch.stack([p.grad.norm() for p in model.parameters() if p.requires_grad])
        opt.step()
        losses.append(value.detach())
        model.train(not evaluate)
    a[f"{name}.losses"] = torch.stack(losses)
    return model


def transformers():
    """nn/layers/transformer: its layers in training, with dropout and masks; and their texts."""
    a = {}
    causal = nn.Transformer.generate_square_subsequent_mask
    hidden = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 1, 0, 1]]) == 1
    memory_hidden = torch.tensor([[0, 1, 0, 0], [1, 0, 0, 1]]) == 1
    layer = dict(d_model=8, nhead=2, dim_feedforward=12)
    other = dict(layer, dropout=0.25, activation="gelu", norm_first=True, batch_first=True, bias=False, layer_norm_eps=1e-3)
    models = []

    def case(name, make, shapes, forward=lambda model, *batch: model(*batch)):
        draw = lambda: [torch.randn(shape) for shape in shapes]
        models.append(first_steps(a, name, make, draw, lambda output, *batch: (output - 1).square().mean(), forward))

    case("encoder_layer", lambda: nn.TransformerEncoderLayer(**layer), [(5, 2, 8)])
    case("encoder_layer_masks", lambda: nn.TransformerEncoderLayer(**other), [(2, 5, 8)],
         lambda model, src: model(src, src_mask=causal(5).double(), src_key_padding_mask=hidden))
    case("decoder_layer", lambda: nn.TransformerDecoderLayer(**layer), [(5, 2, 8), (4, 2, 8)])
    case("decoder_layer_masks", lambda: nn.TransformerDecoderLayer(**other), [(2, 5, 8), (2, 4, 8)],
         lambda model, tgt, memory: model(tgt, memory, tgt_mask=causal(5).double(), tgt_is_causal=True, memory_mask=causal(5)[:, :4] == -math.inf,
                                          tgt_key_padding_mask=hidden))
    case("encoder", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer), 3), [(5, 2, 8)],
         lambda model, src: model(src, mask=causal(5).double(), is_causal=True))
    case("decoder", lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(**layer), 2, nn.LayerNorm(8)), [(5, 2, 8), (4, 2, 8)],
         lambda model, tgt, memory: model(tgt, memory, memory_key_padding_mask=memory_hidden))
    case("transformer", lambda: nn.Transformer(8, 2, 2, 1, 12, batch_first=True), [(2, 4, 8), (2, 5, 8)],
         lambda model, src, tgt: model(src, tgt, src_mask=torch.randn(4, 4, generator=seeded(2)).double(), tgt_mask=causal(5).double(),
                                       memory_mask=torch.zeros(5, 4).double(),
                                       src_key_padding_mask=memory_hidden.double(), memory_key_padding_mask=memory_hidden, tgt_is_causal=True))
    a["text"] = text("\n".join(map(repr, models)))
    a["square"] = causal(3).double()
    return a


def images(a, name, make, **options):
    """first_steps() of a network for images of ten classes."""
    draw = lambda: [torch.randn(4, 3, 32, 32), torch.randint(10, (4,))]
    first_steps(a, name, make, draw, lambda output, x, y: F.cross_entropy(output, y), lambda model, x, y: model(x), **options)


def mobile_networks():
    """nn/models: torchvision's VGG and MobileNets."""
    from torchvision.models import mobilenet_v2, mobilenet_v3_large, mobilenet_v3_small, vgg11, vgg16_bn

    def vgg():
        model = vgg11(num_classes=10, dropout=0.25)
        model.classifier[0].weight.requires_grad = False  # most of the memory
        return model

    a = {}
    images(a, "vgg11", vgg, lr=0.01)  # 0.1 makes the losses grow, and rounding with them
    with torch.device("meta"):
        large = vgg16_bn()
    a["vgg16_bn.keys"] = keys(large)
    images(a, "mobilenet_v2", lambda: mobilenet_v2(num_classes=10), lr=0.01, evaluate=True)
    images(a, "mobilenet_v2_narrow", lambda: mobilenet_v2(num_classes=10, width_mult=0.3, dropout=0), lr=0.01, evaluate=True)
    images(a, "mobilenet_v3_large", lambda: mobilenet_v3_large(num_classes=10), lr=0.01, evaluate=True)
    images(a, "mobilenet_v3_small", lambda: mobilenet_v3_small(num_classes=10), lr=0.01, evaluate=True)
    return a


def vision_transformer():
    """nn/models: torchvision's vision transformer."""
    from torchvision.models import VisionTransformer

    a = {}
    images(a, "vit", lambda: VisionTransformer(32, 8, 3, 4, 32, 48, dropout=0.1, attention_dropout=0.2, num_classes=10))
    return a


def gpt2():
    """nn/models: the GPT-2 of Hugging Face's transformers."""
    from transformers import GPT2Config, GPT2LMHeadModel

    a = {}
    config = GPT2Config(vocab_size=70, n_positions=16, n_embd=32, n_layer=3, n_head=4)
    first_steps(a, "gpt2", lambda: GPT2LMHeadModel(config).train(), lambda: [torch.randint(70, (3, 11))],
                lambda output, x: F.cross_entropy(output[:, :-1].flatten(0, 1), x[:, 1:].flatten()), lambda model, x: model(x).logits)
    return a


class WordLanguageModel(nn.Module):
    """RNNModel of PyTorch's examples/word_language_model, with an LSTM, without its log_softmax."""

    def __init__(self, ntoken, ninp, nhid, nlayers, dropout, tie_weights):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, words, state=None):
        output, state = self.rnn(self.drop(self.encoder(words)), state)
        return self.decoder(self.drop(output)), state


def lstm_language_model():
    """nn/models: the LSTM of PyTorch's examples/word_language_model."""
    a = {}

    def halves(model, words):
        first, state = model(words[:4])
        return torch.cat([first, model(words[4:], state)[0]])

    for name, ninp, tied in (("plain", 9, False), ("tied", 12, True)):
        first_steps(a, name, lambda: WordLanguageModel(40, ninp, 12, 2, 0.2, tied), lambda: [torch.randint(40, (8, 3))],
                    lambda output, x: F.cross_entropy(output[:-1].flatten(0, 1), x[1:].flatten()), halves)
    return a


def optim():
    """nn/optim: 20 steps on fixed gradients; parameters of 33 and 3 x 7 elements."""
    g = seeded(1)
    start = [torch.randn(33, generator=g), torch.randn(3, 7, generator=g)]
    gradients = [[torch.randn(33, generator=g), torch.randn(3, 7, generator=g)] for _ in range(20)]
    a = {"start.0": start[0], "start.1": start[1], "gradients.0": torch.stack([x[0] for x in gradients]), "gradients.1": torch.stack([x[1] for x in gradients])}
    cases = {"sgd": lambda p: torch.optim.SGD(p, lr=0.05),
             "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
             "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
             "sgd_dampening": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.1),
             "adam": lambda p: torch.optim.Adam(p),
             "adam_options": lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
             "adamw": lambda p: torch.optim.AdamW(p),
             "adamw_options": lambda p: torch.optim.AdamW(p, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.3),
             "adam_amsgrad": lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.5, 0.6), amsgrad=True),
             "nadam": lambda p: torch.optim.NAdam(p),
             "nadam_options": lambda p: torch.optim.NAdam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1, momentum_decay=0.1),
             "nadam_decoupled": lambda p: torch.optim.NAdam(p, lr=0.02, weight_decay=0.1, decoupled_weight_decay=True),
             "radam": lambda p: torch.optim.RAdam(p),
             "radam_options": lambda p: torch.optim.RAdam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
             "radam_decoupled": lambda p: torch.optim.RAdam(p, lr=0.02, betas=(0.8, 0.9), weight_decay=0.1, decoupled_weight_decay=True),
             "radam_never_scaled": lambda p: torch.optim.RAdam(p, lr=0.02, betas=(0.5, 0.6)),
             "radam_maximize": lambda p: torch.optim.RAdam(p, lr=0.02, weight_decay=0.1, maximize=True),
             "rmsprop": lambda p: torch.optim.RMSprop(p),
             "rmsprop_options": lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.8, eps=1e-4, weight_decay=0.1, momentum=0.9),
             "rmsprop_centered": lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.4, eps=1e-2, centered=True),
             "sgd_maximize": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, weight_decay=0.1, maximize=True),
             "adam_maximize": lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.1, maximize=True),
             "adamw_maximize": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.1, maximize=True),
             "nadam_maximize": lambda p: torch.optim.NAdam(p, lr=0.02, weight_decay=0.1, maximize=True),
             "rmsprop_maximize": lambda p: torch.optim.RMSprop(p, lr=0.02, weight_decay=0.1, centered=True, momentum=0.5, maximize=True),
             "adagrad_maximize": lambda p: torch.optim.Adagrad(p, lr=0.05, weight_decay=0.1, maximize=True),
             "adagrad": lambda p: torch.optim.Adagrad(p),
             "adagrad_options": lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-4)}
    for name, make in cases.items():
        params = [nn.Parameter(x.clone()) for x in start]
        opt = make(params)
        for step in range(20):
            for i, p in enumerate(params):
                p.grad = gradients[step][i].clone()
                if i == 1 and step == 4:
                    p.grad = None  # a parameter without a gradient keeps its state as it is
            opt.step()
        for i, p in enumerate(params):
            a[f"{name}.{i}"] = p.detach()
            for key, value in opt.state_dict()["state"].get(i, {}).items():
                if value is not None:
                    a[f"{name}.state.{i}.{key}"] = value
    return a


def warmup_stable_decay(optimizer, warmup, stable, decay, rise="linear", fall="cosine", least=0.0, cycles=0.5):
    """The schedule of get_wsd_schedule() in Hugging Face's transformers."""
    from torch.optim.lr_scheduler import LambdaLR
    rising = {"linear": lambda x: x, "cosine": lambda x: (1 - math.cos(math.pi * x)) / 2, "1-sqrt": lambda x: 1 - math.sqrt(1 - x)}[rise]
    falling = {"linear": lambda x: 1 - x, "cosine": lambda x: (1 + math.cos(2 * math.pi * cycles * x)) / 2, "1-sqrt": lambda x: 1 - math.sqrt(x)}[fall]

    def height(step):
        if step < warmup:
            return rising(step / warmup)
        if step < warmup + stable:
            return 1
        return falling((step - warmup - stable) / decay) if step < warmup + stable + decay else 0
    return LambdaLR(optimizer, lambda step: least + (1 - least) * height(step))


def schedulers():
    """nn/optim/lr_scheduler: the rates of two groups (0.1 and 0.02) at the start and after each of 50 steps; of a cycle the momenta too."""
    from torch.optim import lr_scheduler as lrs
    a = {"metrics": torch.cat([torch.linspace(1, 0.5, 10), torch.full((20,), 0.5), torch.linspace(0.49, 0.6, 20)]).double()}
    cases = {"step": lambda o: [lrs.StepLR(o, 7, 0.3)],
             "multi_step": lambda o: [lrs.MultiStepLR(o, [3, 20, 20, 31], 0.5)],
             "constant": lambda o: [lrs.ConstantLR(o, 0.25, 8)],
             "linear": lambda o: [lrs.LinearLR(o, 0.2, 0.7, 13)],
             "exponential": lambda o: [lrs.ExponentialLR(o, 0.93)],
             "polynomial": lambda o: [lrs.PolynomialLR(o, 40, 1.7)],
             "cosine": lambda o: [lrs.CosineAnnealingLR(o, 12, 0.001)],
             "warm_restarts": lambda o: [lrs.CosineAnnealingWarmRestarts(o, 5, 2, 0.002)],
             "warm_restarts_even": lambda o: [lrs.CosineAnnealingWarmRestarts(o, 6)],
             "lambda": lambda o: [lrs.LambdaLR(o, lambda e: 1 / (1 + e))],
             "lambdas": lambda o: [lrs.LambdaLR(o, [lambda e: 0.9 ** e, lambda e: 1 + e])],
             "wsd": lambda o: [warmup_stable_decay(o, 10, 20, 15)],
             "wsd_linear": lambda o: [warmup_stable_decay(o, 7, 13, 20, "cosine", "linear", 0.1)],
             "wsd_sqrt": lambda o: [warmup_stable_decay(o, 9, 11, 30, "1-sqrt", "1-sqrt", 0.05)],
             "wsd_waves": lambda o: [warmup_stable_decay(o, 0, 0, 45, fall="cosine", least=0.2, cycles=1.5)],
             "wsd_abrupt": lambda o: [warmup_stable_decay(o, 0, 25, 0, least=0.25)],
             "multiplicative": lambda o: [lrs.MultiplicativeLR(o, lambda e: 1 - e / 100)],
             "chained": lambda o: [lrs.ExponentialLR(o, 0.95), lrs.LinearLR(o, 0.1, 1, 10), lrs.StepLR(o, 9, 0.5)],
             "sequential": lambda o: [lrs.SequentialLR(o, [lrs.LinearLR(o, 0.1, 1, 5), lrs.CosineAnnealingLR(o, 30), lrs.ExponentialLR(o, 0.9)], [5, 35])],
             "sequential_from_present": lambda o: [lrs.SequentialLR(o, [lrs.ExponentialLR(o, 0.9), torch.optim.swa_utils.SWALR(o, 0.05, anneal_epochs=6),
                                                                        lrs.MultiplicativeLR(o, lambda e: 0.97 - e / 200)], [4, 20])],
             "sequential_of_all": lambda o: [lrs.SequentialLR(o, [lrs.ConstantLR(o, 0.5, 3), lrs.MultiStepLR(o, [0, 2], 0.5), lrs.StepLR(o, 3, 0.7), lrs.PolynomialLR(o, 9, 1.5),
                                                                  lrs.CosineAnnealingWarmRestarts(o, 4), lrs.LambdaLR(o, lambda e: 1 / (1 + e)), lrs.ConstantLR(o, 0.25, 0),
                                                                  lrs.LinearLR(o, 0.3, 0.8, 5), lrs.MultiplicativeLR(o, lambda e: 0.9)], [5, 10, 16, 22, 28, 33, 38, 42])],
             "sequential_nested": lambda o: [lrs.SequentialLR(o, [lrs.SequentialLR(o, [lrs.ExponentialLR(o, 0.9), torch.optim.swa_utils.SWALR(o, 0.05, anneal_epochs=0)], [7]),
                                                                  lrs.MultiplicativeLR(o, lambda e: 0.95)], [15])],
             "constant_0": lambda o: [lrs.ConstantLR(o, 0.25, 0), lrs.PolynomialLR(o, 0), lrs.LinearLR(o, 0.5, 1, 0)],
             "one_cycle": lambda o: [lrs.OneCycleLR(o, 0.4, 50)],
             "one_cycle_linear": lambda o: [lrs.OneCycleLR(o, [0.4, 0.2], 50, anneal_strategy="linear", pct_start=0.4, div_factor=10,
                                                           base_momentum=0.8, max_momentum=[0.9, 0.99], three_phase=True)],
             "one_cycle_again": lambda o: [lrs.OneCycleLR(o, 0.4, 20), lrs.OneCycleLR(o, 0.3, 50, pct_start=0.5)][1:],
             "cyclic": lambda o: [lrs.CyclicLR(o, 0.01, 0.3, 7, 4)],
             "cyclic_groups": lambda o: [lrs.CyclicLR(o, [0.01, 0.002], [0.1, 0.3], 6, mode="triangular2", base_momentum=[0.7, 0.75], max_momentum=[0.9, 0.85])],
             "cyclic_exp": lambda o: [lrs.CyclicLR(o, 0.01, 0.3, 5, 0, mode="exp_range", gamma=0.97)],
             "cyclic_scaled": lambda o: [lrs.CyclicLR(o, 0.01, 0.3, 5, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations", cycle_momentum=False)],
             "cyclic_second": lambda o: [lrs.ExponentialLR(o, 0.9), lrs.CyclicLR(o, 0.01, 0.3, 5)],
             "cyclic_sequential": lambda o: [lrs.SequentialLR(o, [lrs.LinearLR(o, 0.1, 1, 5), lrs.CyclicLR(o, 0.03, 0.3, 5)], [6])],
             "chained_scheduler": lambda o: [lrs.ChainedScheduler([lrs.ConstantLR(o, 0.1, 4), lrs.ExponentialLR(o, 0.9), lrs.CosineAnnealingLR(o, 12)], optimizer=o)],
             "plateau": lambda o: [lrs.ReduceLROnPlateau(o, factor=0.5, patience=3, cooldown=2, min_lr=[0.001, 0.005])],
             "plateau_max": lambda o: [lrs.ReduceLROnPlateau(o, mode="max", threshold=0.01, threshold_mode="abs", patience=2)]}
    for name, make in cases.items():
        opt = torch.optim.SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr": 0.1}, {"params": [nn.Parameter(torch.zeros(1))], "lr": 0.02}], momentum=0.9)
        made = make(opt)
        rates, momenta = [], []
        for step in range(51):
            rates.append([g["lr"] for g in opt.param_groups])
            momenta.append([g["momentum"] for g in opt.param_groups])
            opt.step()
            for scheduler in made if step < 50 else []:
                scheduler.step(*[a["metrics"][step]] if "plateau" in name else [])
        a[name] = torch.tensor(rates, dtype=torch.float64)
        if "cycl" in name:
            a[f"{name}.momentum"] = torch.tensor(momenta, dtype=torch.float64)
    return a


def transforms():
    """nn/data/transforms: torchvision's results of a float image in [0, 1], and of an image of bytes."""
    import torchvision.transforms as tv
    import torchvision.transforms.functional as tvf

    image = torch.rand(3, 20, 27, generator=seeded(1))
    pixels = torch.randint(0, 256, (3, 20, 27), generator=seeded(2), dtype=torch.uint8)
    a = {"image": image, "pixels": pixels}
    for size in (33, 11, 20, [9, 40], [64, 7], [20, 5]):
        a["resize_" + str(size).strip("[]").replace(", ", "_")] = tvf.resize(image, size, antialias=True)
    for size in (15, [30, 24], [31, 10], [20, 27], [5, 28]):
        a["center_crop_" + str(size).strip("[]").replace(", ", "_")] = tvf.center_crop(image, size)
    for mode in ("constant", "edge", "reflect", "symmetric"):
        a["pad_" + mode] = tvf.pad(image, [1, 2, 3, 4], 0.5 if mode == "constant" else 0, mode)
        a["crop_pad_" + mode] = tvf.pad(image, [-2, 3, 1, -4], 0.5 if mode == "constant" else 0, mode)
    for angle in (17.3, -20.0, 45.0, 90.0):
        a[f"rotate_{angle}"] = tvf.rotate(image, angle)
    # Sizes whose sides differ in parity make every pixel of a quarter turn a tie.
    for height, width in ((20, 27), (27, 20), (7, 7), (16, 16), (33, 32), (5, 4), (1, 9)):
        counted = torch.arange(1, height * width + 1, dtype=torch.float32).reshape(1, height, width)
        for angle in (0, 90, 180, 270, -90, -180, -270, 360, 45, -30):
            a[f"turned_{height}_{width}_{angle}"] = tvf.rotate(counted, angle)
    a["rotate_filled"] = tvf.rotate(image, 30.0, fill=[0.25, 0.25, 0.25])
    for kernel, sigma in ((3, 0.1), (3, 1.3), (5, 2.0), (9, 0.7)):
        a[f"blur_{kernel}_{sigma}"] = tvf.gaussian_blur(image, kernel, [sigma, sigma])
    a["normalize"] = tvf.normalize(image, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    a["pixels_resize"] = tvf.resize(pixels, 11, antialias=True)
    a["pixels_blur"] = tvf.gaussian_blur(pixels, 3, [1.3, 1.3])
    a["pixels_rotate"] = tvf.rotate(pixels, 17.3)
    a["pixels_unit"] = pixels.float() / 255
    torch.manual_seed(5)  # one stream through all, so that each draws as many numbers as torchvision's
    for name, transform in {"flip": tv.RandomHorizontalFlip(), "rotation": tv.RandomRotation(20), "angles": tv.RandomRotation((5, 90)),
                            "blur": tv.GaussianBlur(3), "crop": tv.RandomCrop(10, padding=2),
                            "small_crop": tv.RandomCrop((40, 20), pad_if_needed=True), "whole_crop": tv.RandomCrop((20, 27)),
                            "resized_crop": tv.RandomResizedCrop(7, antialias=True),
                            "wide_crop": tv.RandomResizedCrop((4, 9), scale=(0.9, 1), ratio=(2, 3), antialias=True)}.items():
        a["random_" + name] = torch.stack([transform(image) for _ in range(4)])
    a["random_after"] = torch.randint(0, 1000000, (1,))
    book = tv.Compose([tv.Resize(30, antialias=True), tv.CenterCrop(24), tv.RandomHorizontalFlip(p=0.5), tv.RandomRotation(20), tv.GaussianBlur(kernel_size=3),
                       tv.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])

    class Rolled(torch.utils.data.Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, i):
            return book(image.roll(i, 2)), i

    torch.manual_seed(9)
    for i, (x, y) in enumerate(torch.utils.data.DataLoader(Rolled(), batch_size=3, shuffle=True)):
        a[f"book_{i}"], a[f"book_{i}_targets"] = x, y
    return {name: tensor.clone() for name, tensor in a.items()}


def colors():
    """nn/data/transforms/color.cc and random transforms of colours and places, as transforms()."""
    import torchvision.transforms as tv
    import torchvision.transforms.functional as tvf

    image = torch.rand(3, 8, 9, generator=seeded(1))
    image[:, 2] = image[0, 2]  # a grey row
    image[:, 3, :4] = 0
    pixels = torch.randint(0, 256, (3, 8, 9), generator=seeded(2), dtype=torch.uint8)
    a = {"image": image, "pixels": pixels}
    for kind, x in (("image", image), ("pixels", pixels)):
        for factor in (0.3, 1.7):
            a[f"{kind}_brightness_{factor}"] = tvf.adjust_brightness(x, factor)
            a[f"{kind}_contrast_{factor}"] = tvf.adjust_contrast(x, factor)
            a[f"{kind}_saturation_{factor}"] = tvf.adjust_saturation(x, factor)
        for factor in (-0.5, -0.13, 0.4):
            a[f"{kind}_hue_{factor}"] = tvf.adjust_hue(x, factor)
        a[f"{kind}_grey"] = tvf.rgb_to_grayscale(x)
    a["one_channel_contrast"] = tvf.adjust_contrast(image[:1], 1.7)
    a["two_images_contrast"] = tvf.adjust_contrast(torch.stack([image, image.flip(-1) * 0.5]), 0.3)
    torch.manual_seed(5)  # one stream through all
    for name, transform in {"vertical_flip": tv.RandomVerticalFlip(), "jitter": tv.ColorJitter(0.4, 0.5, (0.2, 1.9), 0.2), "one_jitter": tv.ColorJitter(contrast=0.5),
                            "no_jitter": tv.ColorJitter(), "erasing": tv.RandomErasing(), "coloured_erasing": tv.RandomErasing(1, (0.1, 0.5), (0.5, 2), (0.1, 0.2, 0.3)),
                            "noise": tv.RandomErasing(1, value="random"), "large_erasing": tv.RandomErasing(1, (0.9, 1)), "greyscale": tv.RandomGrayscale(0.5)}.items():
        a["random_" + name] = torch.stack([transform(image) for _ in range(4)])
    a["random_after"] = torch.randint(0, 1000000, (1,))
    return {name: tensor.clone() for name, tensor in a.items()}


def clip():
    """nn/utils/clip_grad: two gradients, 9 and 2 x 3 elements, one with three times the other's size, clipped; and the norms before."""
    g = seeded(3)
    start = [torch.randn(9, generator=g), 3 * torch.randn(2, 3, generator=g)]
    a = {"gradients.0": start[0], "gradients.1": start[1]}

    def clipped(name, clip):
        params = [nn.Parameter(torch.zeros_like(x)) for x in start]
        for p, x in zip(params, start):
            p.grad = x.clone()
        norm = clip(params)
        a.update({f"{name}.{i}": p.grad for i, p in enumerate(params)})
        if norm is not None:
            a[f"{name}.norm"] = norm

    for norm_type in (1, 2, 3.5, float("inf")):
        for max_norm in (0.5, 100):
            clipped(f"norm_{norm_type}_{max_norm}", lambda p: nn.utils.clip_grad_norm_(p, max_norm, norm_type))
    clipped("value", lambda p: nn.utils.clip_grad_value_(p, 0.7))
    return a


def training():
    """Losses of the first steps of SGD with momentum 0.9 and lr 0.01, from seed 123: weights, then inputs, then targets."""
    a = {}
    for name, make, shape, classes, batch in (("mlp", mlp, (50,), 3, 8), ("cnn", book_cnn, (1, 28, 28), 10, 4)):
        for kind in (torch.optim.SGD, torch.optim.Adam):
            torch.manual_seed(123)
            model = make()
            x, y = torch.randn(batch, *shape), torch.randint(classes, (batch,))
            opt = kind(model.parameters(), lr=0.01, momentum=0.9) if kind is torch.optim.SGD else kind(model.parameters())
            losses = []
            for _ in range(5):
                opt.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                opt.step()
                losses.append(loss.detach())
            a[f"{name}.{kind.__name__.lower()}"] = torch.stack(losses)
    return a


def idx(name):
    """One of the IDX files of the shipped digits."""
    data = gzip.open(ARRAYS.parents[2] / "examples/data/digits" / f"{name}-ubyte.gz").read()
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=4 + 4 * data[3]).reshape(shape)


def train_cnn():
    """examples/train_cnn --batch-size 64 --seed 42: the loss of each step of the first epoch on the digits."""
    torch.set_num_threads(1)
    x = F.interpolate(idx("train-images-idx3")[:, None].float() / 255, (28, 28), mode="bilinear", align_corners=False)
    x, y = (x - 0.3055) / 0.3761, idx("train-labels-idx1").long()
    torch.manual_seed(42)
    model = book_cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    order = list(DistributedSampler(range(len(x)), 1, 0, seed=42))
    losses = []
    for first in range(0, len(x) - 63, 64):
        batch = order[first:first + 64]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    a = {"losses": torch.tensor(losses, dtype=torch.float64)}
    # The names and sizes of the parameters, without their values.
    a.update({f"size.{name}": torch.tensor(p.numel()) for name, p in model.state_dict().items()})
    return a


def train_gpt():
    """examples/train_gpt --context 32 --layers 2 --heads 2 --width 32 --steps 12 --batch-size 8 --lr 0.01 --warmup-steps 3 --min-lr 0.001
    --weight-decay 0.1 --seed 42 on `text`: the loss of each step and the validation loss after the last one."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(1)
    text = torch.frombuffer(bytearray(b"Ranks add what they have, and all of them get the sum. " * 30), dtype=torch.uint8)
    held_out = int(len(text) * 0.1)

    def samples(tokens):
        count = (len(tokens) - 1) // 32
        return tokens[:32 * count].view(count, 32).long(), tokens[1:32 * count + 1].view(count, 32).long()

    x, y = samples(text[:-held_out])
    torch.manual_seed(42)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=32, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    matrices, others = ([p for p in model.parameters() if (p.dim() > 1) == wanted] for wanted in (True, False))
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}], lr=0.01)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=3)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=9, eta_min=0.001)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, cosine], [3])
    loss_of = lambda x, y: F.cross_entropy(model(x).logits.flatten(0, 1), y.flatten())
    losses = []
    for epoch in range(3):
        sampler = DistributedSampler(range(len(x)), 1, 0, seed=42)
        sampler.set_epoch(epoch)
        order = list(sampler)
        for first in range(0, len(x) - 7, 8):
            if len(losses) == 12:
                break
            batch = order[first:first + 8]
            optimizer.zero_grad()
            loss = loss_of(x[batch], y[batch])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    with torch.no_grad():
        validation = loss_of(*samples(text[-held_out:]))
    return {"text": text, "losses": torch.tensor(losses, dtype=torch.float64), "val_loss": validation.double()}


def rows():
    """The rows of functions of one element in core/elementwise/list.def, each a list of its columns."""
    text = (ROOT / "core/elementwise/list.def").read_text()
    found = re.findall(r"^DL_UNARY(?:_WITH)?\((k.*)\)$", text, re.MULTILINE)
    return list(csv.reader(found, skipinitialspace=True, escapechar="\\"))


def torch_function(name, a, b):
    """PyTorch's function for a row; those that are not found by their name stand here."""
    others = {
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "pow": lambda x: torch.pow(x, a),
        # PyTorch's own float64 gradient takes 1 / 6 in float32, and is 3e-8 off.
        "hardsigmoid": lambda x: F.relu6(x + 3) / 6,
        "leaky_relu": lambda x: F.leaky_relu(x, a),
        "elu": lambda x: F.elu(x, a),
        "softplus": lambda x: F.softplus(x, a, b),
        "hardtanh": lambda x: F.hardtanh(x, a, b),
        # as hardsigmoid: PyTorch takes 1 / alpha in float32
        "celu": lambda x: torch.where(x > 0, x, a * torch.expm1(torch.where(x > 0, 0, x) / a)),
        "softshrink": lambda x: F.softshrink(x, a),
        "hardshrink": lambda x: F.hardshrink(x, a),
        "threshold": lambda x: F.threshold(x, a, b),
        "clamp": lambda x: torch.clamp(x, a, b),
    }
    return others.get(name) or getattr(torch, name, None) or getattr(F, name)


def elementwise():
    """core/elementwise: values and slopes of every row in float64, and the largest errors of PyTorch's own float32."""
    a = {}
    for columns in rows():
        name, low, high = columns[1], float(columns[6]), float(columns[7])
        f = torch_function(name, *(float(x) for x in (columns[11:] or ("0", "0"))))
        turns = torch.arange(1, 64, dtype=torch.float64) * 0.6180339887498949 % 1
        x = low + (0.01 + 0.98 * turns) * (high - low)
        x[-1] = 0 if low < 0 else x[-1]
        x = x.to(torch.float32).to(torch.float64)  # the same numbers in both dtypes
        both = {}
        for dtype in (torch.float64, torch.float32):
            leaf = x.detach().clone().to(dtype).requires_grad_()
            y = f(leaf)
            y.sum().backward()
            both[dtype] = y.detach().to(torch.float64), leaf.grad.to(torch.float64)
        a[f"{name}.x"] = x
        for kind, exact, single in zip(("", "slope_"), both[torch.float64], both[torch.float32]):
            a[f"{name}.{'slope' if kind else 'y'}"] = exact
            largest = exact.abs().max().clamp(min=1e-300)
            a[f"{name}.float32_{kind}error"] = ((single - exact).abs().max() / largest).reshape(1)
    return a


def bf16_exact(x):
    """The nearest numbers that every floating dtype holds, so that tests in all dtypes have the same inputs."""
    return x.to(torch.bfloat16).to(torch.float64)


def with_gradients(a, name, f, inputs, fixed=()):
    """f of float64 leaves: its value, what stands for the gradient of its result, and the gradients of the inputs that have one, but for `fixed` ones."""
    leaves = {key: value.clone().requires_grad_() if value.is_floating_point() and "weight" not in key and key not in fixed else value for key, value in inputs.items()}
    y = f(**leaves)
    a[f"{name}.y"] = y.detach()
    g = bf16_exact(0.5 + 0.25 * torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape))
    a[f"{name}.g"] = g
    y.backward(g)
    for key, leaf in leaves.items():
        if leaf.requires_grad and leaf.grad is not None:
            a[f"{name}.d_{key}"] = leaf.grad


def losses():
    """core/ops/loss/loss.h: every option of every loss; arrays CASE.input, CASE.target, CASE.weight, and CASE.REDUCTION.y, .g, .d_input, .d_target."""
    r = seeded(11)
    rand = lambda *shape: bf16_exact(torch.rand(*shape, generator=r, dtype=torch.float64))
    randn = lambda *shape: bf16_exact(torch.randn(*shape, generator=r, dtype=torch.float64))
    share = lambda *shape: bf16_exact(0.05 + 0.9 * rand(*shape))
    classes = lambda shape: torch.randint(5, shape, generator=r)
    some = lambda shape, ignored: torch.where(rand(*shape) < 0.2, ignored, classes(shape))
    x, images = randn(7, 5), randn(3, 5, 2, 4)
    y = some((3, 2, 4), -100)
    soft = bf16_exact(torch.softmax(randn(7, 5), 1))
    w = bf16_exact(0.5 + rand(5))
    logp = lambda t: bf16_exact(torch.log_softmax(t, 1))
    a, b = randn(6, 7), randn(6, 7)
    signs = lambda *shape: torch.randint(0, 2, shape, generator=r) * 2 - 1
    cases = {
        "cross_entropy": (F.cross_entropy, dict(input=x, target=classes((7,))), {}),
        "cross_entropy_one": (F.cross_entropy, dict(input=randn(5), target=torch.tensor(3)), {}),
        "cross_entropy_weight": (F.cross_entropy, dict(input=x, target=some((7,), -100), weight=w), {}),
        "cross_entropy_ignore": (F.cross_entropy, dict(input=x, target=some((7,), 2)), dict(ignore_index=2)),
        "cross_entropy_smooth": (F.cross_entropy, dict(input=x, target=some((7,), -100)), dict(label_smoothing=0.1)),
        "cross_entropy_all": (F.cross_entropy, dict(input=images, target=y, weight=w), dict(label_smoothing=0.3)),
        "cross_entropy_images": (F.cross_entropy, dict(input=images, target=y), {}),
        "cross_entropy_soft": (F.cross_entropy, dict(input=x, target=soft), {}),
        "cross_entropy_soft_all": (F.cross_entropy, dict(input=x, target=soft, weight=w), dict(label_smoothing=0.2)),
        "cross_entropy_soft_images": (F.cross_entropy, dict(input=images, target=bf16_exact(torch.softmax(randn(3, 5, 2, 4), 1)), weight=w), {}),
        "nll": (F.nll_loss, dict(input=logp(x), target=classes((7,))), {}),
        "nll_all": (F.nll_loss, dict(input=logp(images), target=some((3, 2, 4), 1), weight=w), dict(ignore_index=1)),
        "mse": (F.mse_loss, dict(input=a, target=b), {}),
        "mse_broadcast": (F.mse_loss, dict(input=a, target=randn(7)), {}),
        "l1": (F.l1_loss, dict(input=a, target=b), {}),
        "l1_broadcast": (F.l1_loss, dict(input=randn(6, 1), target=b), {}),
        "smooth_l1": (F.smooth_l1_loss, dict(input=a, target=b), {}),
        "smooth_l1_beta": (F.smooth_l1_loss, dict(input=a, target=b), dict(beta=0.4)),
        "smooth_l1_zero": (F.smooth_l1_loss, dict(input=a, target=b), dict(beta=0.0)),
        "huber": (F.huber_loss, dict(input=a, target=b), {}),
        "huber_delta": (F.huber_loss, dict(input=a, target=b), dict(delta=0.4)),
        "bce": (F.binary_cross_entropy, dict(input=share(6, 7), target=share(6, 7)), {}),
        "bce_weight": (F.binary_cross_entropy, dict(input=share(6, 7), target=share(6, 7), weight=rand(6, 1)), {}),
        "bce_ends": (F.binary_cross_entropy, dict(input=torch.tensor([0, 1, 0, 1, 0.5], dtype=torch.float64), target=torch.tensor([0, 1, 1, 0, 1], dtype=torch.float64)), {}),
        "bce_with_logits": (F.binary_cross_entropy_with_logits, dict(input=3 * a, target=share(6, 7)), {}),
        "bce_with_logits_all": (F.binary_cross_entropy_with_logits, dict(input=3 * a, target=share(6, 7), weight=rand(6, 1), pos_weight=3 * rand(7)), {}),
        "kl_div": (F.kl_div, dict(input=logp(x), target=soft), {}),
        "kl_div_log": (F.kl_div, dict(input=logp(x), target=logp(randn(7, 5))), dict(log_target=True)),
        "hinge_embedding": (F.hinge_embedding_loss, dict(input=a, target=signs(6, 7)), {}),
        "hinge_embedding_margin": (F.hinge_embedding_loss, dict(input=a, target=signs(6, 7)), dict(margin=0.4)),
        "soft_margin": (F.soft_margin_loss, dict(input=a, target=signs(6, 7).double()), {}),
        "multilabel_soft_margin": (F.multilabel_soft_margin_loss, dict(input=a, target=share(6, 7)), {}),
        "multilabel_soft_margin_weight": (F.multilabel_soft_margin_loss, dict(input=a, target=share(6, 7), weight=rand(7)), {}),
        "multi_margin": (F.multi_margin_loss, dict(input=x, target=classes((7,))), {}),
        "multi_margin_all": (F.multi_margin_loss, dict(input=x, target=classes((7,)), weight=w), dict(p=2, margin=0.4)),
        "multi_margin_one": (F.multi_margin_loss, dict(input=randn(5), target=torch.tensor(3)), {}),
        "multilabel_margin": (F.multilabel_margin_loss, dict(input=x, target=torch.stack([torch.randperm(5, generator=r) - 1 for _ in range(7)])), {}),
        "multilabel_margin_one": (F.multilabel_margin_loss, dict(input=randn(5), target=torch.tensor([3, 0, -1, 2, 1])), {}),
        "poisson_nll": (F.poisson_nll_loss, dict(input=a, target=bf16_exact(4 * rand(6, 7))), {}),
        "poisson_nll_full": (F.poisson_nll_loss, dict(input=a, target=bf16_exact(0.1 + 4 * rand(6, 7))), dict(full=True)),
        "poisson_nll_number": (F.poisson_nll_loss, dict(input=share(6, 7), target=bf16_exact(4 * rand(6, 7))), dict(log_input=False, eps=0.1)),
        "gaussian_nll": (F.gaussian_nll_loss, dict(input=a, target=b, var=share(6, 7)), {}),
        "gaussian_nll_all": (F.gaussian_nll_loss, dict(input=a, target=b, var=share(6)), dict(full=True, eps=0.5)),
        "margin_ranking": (F.margin_ranking_loss, dict(input1=a, input2=b, target=signs(6, 7)), {}),
        "margin_ranking_margin": (F.margin_ranking_loss, dict(input1=a, input2=b, target=signs(6, 7)), dict(margin=0.4)),
        "triplet_margin": (F.triplet_margin_loss, dict(anchor=a, positive=b, negative=randn(6, 7)), {}),
        "triplet_margin_all": (F.triplet_margin_loss, dict(anchor=a, positive=b, negative=randn(6, 7)), dict(margin=0.4, p=3, eps=0.1, swap=True)),
        "cosine": (F.cosine_embedding_loss, dict(input1=a, input2=b, target=torch.tensor([1, -1, 1, -1, -1, 1])), dict(margin=0.1)),
    }
    arrays = {}
    for name, (f, inputs, options) in cases.items():
        arrays.update({f"{name}.{key}": value.clone() for key, value in inputs.items()})
        for reduction in ("none", "mean", "sum") + (("batchmean",) if "kl" in name else ()):
            with_gradients(arrays, f"{name}.{reduction}", lambda f=f, options=options, reduction=reduction, **k: f(**k, **options, reduction=reduction), inputs,
                           ("target",) if name == "soft_margin" else ())
    for p in (1, 2, 3):
        with_gradients(arrays, f"pairwise_distance.{p}", lambda input1, input2: F.pairwise_distance(input1, input2, p, 0.1, True), dict(input1=a, input2=b))
    for dim in (0, 1, -1):
        with_gradients(arrays, f"cosine_similarity.{dim}", lambda input1, input2: F.cosine_similarity(input1, input2, dim=dim), dict(input1=a, input2=b))
    return arrays


def ctc():
    """core/ops/loss/ctc_loss.cc: every form and option; arrays CASE.input, .target, .input_lengths, .target_lengths, and CASE.REDUCTION.y, .g, .d_input."""
    r = seeded(19)
    log_probs = lambda *shape: bf16_exact(torch.log_softmax(2 * torch.randn(*shape, generator=r, dtype=torch.float64), -1))
    labels = lambda *shape: torch.randint(1, 5, shape, generator=r)
    lengths = torch.tensor
    repeated = torch.tensor([[1, 1, 2, 2], [3, 3, 3, 3], [4, 1, 4, 1]])
    cases = {
        "padded": (log_probs(12, 3, 5), labels(3, 4), lengths([12, 9, 7]), lengths([4, 2, 3]), {}),
        "concatenated": (log_probs(12, 3, 5), labels(9), lengths([12, 9, 7]), lengths([4, 2, 3]), {}),
        "one": (log_probs(9, 5), labels(3), lengths(8), lengths(3), {}),
        "repeated": (log_probs(12, 3, 5), repeated, lengths([12, 12, 8]), lengths([4, 4, 4]), {}),
        "last_blank": (log_probs(8, 2, 5), labels(2, 3) - 1, lengths([8, 5]), lengths([3, 1]), dict(blank=4)),
        "empty_targets": (log_probs(6, 3, 5), labels(3, 2), lengths([6, 3, 0]), lengths([0, 2, 0]), {}),
        "too_long": (log_probs(6, 3, 5), repeated, lengths([6, 6, 3]), lengths([2, 4, 4]), dict(zero_infinity=True)),
    }
    arrays = {}
    for name, (x, target, steps, counts, options) in cases.items():
        inputs = dict(input=x, target=target, input_lengths=steps, target_lengths=counts)
        arrays.update({f"{name}.{key}": value.clone() for key, value in inputs.items()})
        for reduction in ("none", "mean", "sum"):
            with_gradients(arrays, f"{name}.{reduction}", lambda input, target, input_lengths, target_lengths, options=options, reduction=reduction:
                           F.ctc_loss(input, target, input_lengths, target_lengths, **options, reduction=reduction), inputs)
    return arrays


def linear_cross_entropy():
    """core/ops/loss/loss.h: arrays CASE.input, .matrix, .bias, .target, .weight, and CASE.REDUCTION.y, .g, .d_input, .d_matrix, .d_bias."""
    r = seeded(20)
    randn = lambda *shape: bf16_exact(torch.randn(*shape, generator=r, dtype=torch.float64))
    classes = lambda *shape: torch.randint(5, shape, generator=r)
    ignored = torch.tensor([1, 0, 4, 0, 2, 3])
    probabilities = bf16_exact(torch.softmax(randn(6, 5), -1))
    weight = bf16_exact(0.5 + torch.rand(5, generator=r, dtype=torch.float64))
    plain = dict(input=randn(6, 3), matrix=randn(5, 3))
    biased = dict(input=randn(6, 3), matrix=randn(5, 3), bias=randn(5))
    placed = dict(input=randn(4, 3), matrix=randn(5, 2, 2, 3), bias=randn(5, 2, 2), target=classes(4, 2, 2))
    cases = {
        "plain": (dict(plain, target=classes(6)), {}),
        "bias": (dict(biased, target=classes(6)), {}),
        "weight": (dict(biased, target=classes(6), weight=weight), {}),
        "ignored": (dict(biased, target=ignored), dict(ignore_index=0)),
        "smoothed": (dict(biased, target=ignored, weight=weight), dict(ignore_index=0, label_smoothing=0.3)),
        "one": (dict(input=randn(3), matrix=randn(5, 3), bias=randn(5), target=classes()), {}),
        "places": (placed, dict(label_smoothing=0.1)),
        "probabilities": (dict(biased, target=probabilities, weight=weight), {}),
    }
    arrays = {}
    for name, (inputs, options) in cases.items():
        arrays.update({f"{name}.{key}": value.clone() for key, value in inputs.items()})
        for reduction in ("none", "mean", "sum"):
            with_gradients(arrays, f"{name}.{reduction}", lambda input, matrix, target, bias=None, weight=None, options=options, reduction=reduction:
                           F.linear_cross_entropy(input, matrix, target, linear_bias=bias, weight=weight, **options, reduction=reduction), inputs)
    return arrays


def norms():
    """core/ops/norm/norm.h and nn/layers/norm.h: values, gradients, running statistics."""
    r = seeded(12)
    rand = lambda *shape: bf16_exact(0.5 + torch.rand(*shape, generator=r, dtype=torch.float64))
    randn = lambda *shape: bf16_exact(torch.randn(*shape, generator=r, dtype=torch.float64) + 0.5)
    a = {}

    def case(name, f, **inputs):
        a.update({f"{name}.{key}": value.clone() for key, value in inputs.items()})
        with_gradients(a, name, f, inputs)

    case("layer_norm", lambda input, scale, bias: F.layer_norm(input, (37,), scale, bias), input=randn(5, 37), scale=rand(37), bias=rand(37))
    case("layer_norm_plain", lambda input: F.layer_norm(input, (3, 4), eps=1e-3), input=randn(2, 5, 3, 4))
    case("layer_norm_no_bias", lambda input, scale: F.layer_norm(input, (3, 4), scale), input=randn(5, 3, 4), scale=rand(3, 4))
    case("rms_norm", lambda input, scale: F.rms_norm(input, (37,), scale), input=randn(5, 37), scale=rand(37))
    case("rms_norm_plain", lambda input: F.rms_norm(input, (3, 4), eps=0.1), input=randn(2, 3, 4))
    case("group_norm", lambda input, scale, bias: F.group_norm(input, 3, scale, bias), input=randn(2, 6, 3, 5), scale=rand(6), bias=rand(6))
    case("group_norm_flat", lambda input, scale, bias: F.group_norm(input, 2, scale, bias), input=randn(3, 6), scale=rand(6), bias=rand(6))
    case("group_norm_plain", lambda input: F.group_norm(input, 1, eps=1e-2), input=randn(2, 4, 7))
    means, variances = randn(6), rand(6)
    a["mean"], a["variance"] = means.clone(), variances.clone()
    for name, shape in (("1d", (9, 6)), ("1d_places", (3, 6, 7)), ("2d", (3, 6, 4, 5))):
        for training in (True, False):
            case(f"batch_norm_{name}{'' if training else '_eval'}",
                 lambda input, scale, bias: F.batch_norm(input, means.clone(), variances.clone(), scale, bias, training, 0.2, 1e-3),
                 input=randn(*shape), scale=rand(6), bias=rand(6))
    for momentum in (0.3, None):
        layer = nn.BatchNorm2d(6, momentum=momentum).double()
        for step in range(3):
            a[f"running.{step}"] = a["batch_norm_2d.input"] * (step + 1)
            layer(a[f"running.{step}"])
        for key in ("running_mean", "running_var", "num_batches_tracked"):
            a[f"running.{momentum}.{key}"] = layer.state_dict()[key]
    text = "\n".join(str(m) for m in (
        nn.LayerNorm(5), nn.LayerNorm([2, 3], eps=1e-6, bias=False), nn.LayerNorm(4, elementwise_affine=False), nn.RMSNorm(5),
        nn.RMSNorm([2, 3], eps=1e-6, elementwise_affine=False), nn.GroupNorm(2, 4), nn.GroupNorm(2, 4, eps=1e-3, affine=False), nn.BatchNorm1d(5),
        nn.BatchNorm2d(5, eps=1e-3, momentum=None, affine=False), nn.BatchNorm2d(5, momentum=1.0, track_running_stats=False)))
    a["text"] = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    return a


def inits():
    """nn/module/init.h: what modules.safetensors has not; each from seed 123."""
    fills = {"trunc_normal": lambda w: nn.init.trunc_normal_(w), "trunc_normal_tail": lambda w: nn.init.trunc_normal_(w, 0.1, 0.5, 1.0, 1.5),
             "orthogonal": lambda w: nn.init.orthogonal_(w, 1.5), "orthogonal_wide": lambda w: nn.init.orthogonal_(w.view(3, 16)),
             "sparse": lambda w: nn.init.sparse_(w, 0.3), "eye": nn.init.eye_, "dirac": lambda w: nn.init.dirac_(w.view(4, 3, 2, 2), 2),
             "kaiming_tanh": lambda w: nn.init.kaiming_normal_(w, nonlinearity="tanh")}
    a = {}
    for name, fill in fills.items():
        torch.manual_seed(123)
        w = torch.empty(8, 6)
        fill(w)
        a[name] = w
    return a


def layers():
    """nn/layers: pooling, resampling, convolutions, embedding, attention: values and gradients; and their texts."""
    r = seeded(13)
    randn = lambda *shape: bf16_exact(torch.randn(*shape, generator=r, dtype=torch.float64))
    a = {}

    def case(name, f, **inputs):
        a.update({f"{name}.{key}": value.clone() for key, value in inputs.items()})
        with_gradients(a, name, f, inputs)

    image = randn(2, 3, 7, 6)
    for name, options in {"plain": dict(kernel_size=2), "padded": dict(kernel_size=3, stride=2, padding=1), "ceil": dict(kernel_size=(3, 2), stride=(2, 3), ceil_mode=True),
                          "ceil_padded": dict(kernel_size=3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
                          "ceil_counted": dict(kernel_size=3, stride=2, padding=1, ceil_mode=True), "divisor": dict(kernel_size=2, padding=1, divisor_override=3)}.items():
        case(f"avg_pool2d_{name}", lambda input, options=options: F.avg_pool2d(input, **options), input=image)
    for name, size in {"1": 1, "3x4": (3, 4), "none": (None, 2), "more": (9, 8)}.items():
        case(f"adaptive_avg_pool2d_{name}", lambda input, size=size: F.adaptive_avg_pool2d(input, size), input=image)
    for name, options in {"nearest": dict(scale_factor=2.0), "nearest_size": dict(size=(5, 11)), "nearest_part": dict(scale_factor=0.7), "bilinear": dict(scale_factor=2.0, mode="bilinear"),
                          "bilinear_size": dict(size=(4, 13), mode="bilinear"), "bilinear_part": dict(scale_factor=1.3, mode="bilinear"),
                          "bilinear_corners": dict(size=(13, 4), mode="bilinear", align_corners=True)}.items():
        case(f"upsample_{name}", lambda input, options=options: F.interpolate(input, **options), input=image)
    for name, options in {"plain": dict(kernel_size=2), "ceil": dict(kernel_size=3, stride=2, padding=1, ceil_mode=True), "dilated": dict(kernel_size=2, stride=1, dilation=2)}.items():
        case(f"max_pool2d_{name}", lambda input, options=options: F.max_pool2d(input, **options), input=image)
    for name, size in {"1": 1, "3x4": (3, 4), "none": (None, 2), "whole": (7, 3)}.items():
        case(f"adaptive_max_pool2d_{name}", lambda input, size=size: F.adaptive_max_pool2d(input, size), input=image)
    line = randn(2, 3, 9)
    case("avg_pool1d", lambda input: F.avg_pool1d(input, 3, 2, 1, True, False), input=line)
    case("max_pool1d", lambda input: F.max_pool1d(input, 3, 2, 1, 1, True), input=line)
    case("zero_pad", lambda input: nn.ZeroPad2d((1, 2, 0, 3))(input), input=image)
    case("constant_pad", lambda input: nn.ConstantPad1d(2, 3.5)(input), input=line)
    case("reflection_pad", lambda input: nn.ReflectionPad2d(2)(input), input=image)
    case("bilinear", lambda input, other, filters, bias: F.bilinear(input, other, filters, bias), input=randn(2, 4, 3), other=randn(2, 4, 5), filters=randn(6, 3, 5), bias=randn(6))
    case("conv1d", lambda input, filters, bias: F.conv1d(input, filters, bias, stride=2, padding=1, dilation=2, groups=2), input=randn(2, 4, 11), filters=randn(6, 2, 3), bias=randn(6))
    case("conv_transpose2d", lambda input, filters, bias: F.conv_transpose2d(input, filters, bias), input=randn(2, 4, 3, 4), filters=randn(4, 3, 3, 2), bias=randn(3))
    case("conv_transpose2d_all", lambda input, filters: F.conv_transpose2d(input, filters, None, (2, 3), (1, 0), (1, 2), 2, (2, 1)),
         input=randn(2, 4, 3, 4), filters=randn(4, 3, 3, 2))
    index = torch.tensor([[1, 4, 0], [1, 1, 5]])
    case("embedding", lambda table, index: F.embedding(index, table), table=randn(6, 4), index=index)
    case("embedding_padding", lambda table, index: F.embedding(index, table, padding_idx=1), table=randn(6, 4), index=index)
    q, k, v = randn(2, 3, 5, 4), randn(2, 3, 6, 4), randn(2, 3, 6, 7)
    case("attention", lambda query, key, value: F.scaled_dot_product_attention(query, key, value), query=q, key=k, value=v)
    case("attention_causal", lambda query, key, value: F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.3), query=q, key=k, value=v)
    case("attention_mask", lambda query, key, value, mask: F.scaled_dot_product_attention(query, key, value, attn_mask=mask), query=q, key=k, value=v, mask=randn(5, 6))
    torch.manual_seed(5)
    layer = nn.MultiheadAttention(6, 2, batch_first=True)
    for name, value in layer.state_dict().items():
        a[f"multihead.{name}"] = value.double()
    x, y = randn(2, 5, 6), randn(2, 4, 6)
    hidden = torch.tensor([[False, False, True, False], [False, True, False, False]])
    layer = layer.double()
    a["multihead.query"], a["multihead.key"], a["multihead.hidden"] = x.clone(), y.clone(), hidden.long()
    out, shares = layer(x, y, y, key_padding_mask=hidden)
    a["multihead.y"], a["multihead.shares"] = out.detach(), shares.detach()
    out.sum().backward()
    for name, value in layer.named_parameters():
        a[f"multihead.d_{name}"] = value.grad
    torch.manual_seed(123)
    a["dropout2d"] = nn.Dropout2d(0.3)(torch.ones(4, 5, 2, 3))
    for layer, shape in ((nn.Dropout1d, (4, 5, 6)), (nn.Dropout3d, (4, 5, 2, 3, 2)), (nn.AlphaDropout, (4, 50))):
        torch.manual_seed(123)
        a[layer.__name__] = layer(0.3)(torch.ones(shape))
    torch.manual_seed(123)
    a["bilinear.start"] = nn.Bilinear(3, 4, 2).weight.detach()
    torch.manual_seed(123)
    a["embedding.start"] = nn.Embedding(5, 3, padding_idx=-2).weight.detach()
    text = "\n".join(str(m) for m in (
        nn.Embedding(5, 3), nn.Embedding(5, 3, padding_idx=-1), nn.Dropout2d(0.3), nn.Softmax(1), nn.LogSoftmax(-1), nn.Unflatten(1, (2, 3)), nn.LeakyReLU(),
        nn.LeakyReLU(0.2, inplace=True), nn.ELU(), nn.ELU(0.5, inplace=True), nn.Softplus(), nn.Softplus(2.0, 5.0), nn.Hardtanh(), nn.Hardtanh(-2.0, 3.0, True),
        nn.AvgPool2d(2), nn.AvgPool2d(3, 2, 1, ceil_mode=True), nn.AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d((3, None)), nn.Conv1d(3, 4, 3, padding=1),
        nn.Conv1d(4, 4, 3, groups=2, bias=False), nn.ConvTranspose2d(3, 4, 2, stride=2), nn.ConvTranspose2d(3, 4, 3, 2, 1, 1, bias=False, dilation=2),
        nn.Upsample(scale_factor=2), nn.Upsample((3, 4), mode="bilinear"), nn.Upsample(size=5), nn.Dropout1d(), nn.Dropout3d(0.2), nn.AlphaDropout(0.1), nn.SELU(),
        nn.SELU(inplace=True), nn.CELU(), nn.CELU(0.5, True), nn.Softshrink(), nn.Hardshrink(0.25), nn.Threshold(0.1, 20.0), nn.Threshold(0.1, 20.0, True), nn.Tanhshrink(),
        nn.PReLU(), nn.PReLU(4), nn.GLU(), nn.Softmin(1), nn.PixelShuffle(2), nn.PixelUnshuffle(3), nn.ChannelShuffle(2), nn.ZeroPad2d(1), nn.ZeroPad1d((1, 2)), nn.ConstantPad2d((1, 2, 3, 4), 3.5),
        nn.ReflectionPad2d(2), nn.ReplicationPad3d(1), nn.CircularPad1d(2), nn.Bilinear(3, 4, 5), nn.MaxPool1d(3, 2, ceil_mode=True), nn.AvgPool1d(3), nn.AvgPool1d(3, 2, 1),
        nn.AdaptiveMaxPool2d(5), nn.AdaptiveMaxPool2d((3, None)), nn.Identity()))
    a["text"] = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    return a


def rnn():
    """nn/layers/rnn: initial values (seed 123), and in float64 outputs, states and gradients of RNN, LSTM, GRU and their cells."""
    a = {}
    lengths = [3, 5, 1, 4]
    layers = {"rnn": (nn.RNN, {}), "rnn_relu": (nn.RNN, dict(nonlinearity="relu", bias=False, num_layers=2)), "lstm": (nn.LSTM, {}),
              "lstm_deep": (nn.LSTM, dict(num_layers=2, bidirectional=True, batch_first=True)), "lstm_proj": (nn.LSTM, dict(num_layers=2, proj_size=2)),
              "lstm_proj_both": (nn.LSTM, dict(bidirectional=True, proj_size=3)), "gru": (nn.GRU, {}), "gru_deep": (nn.GRU, dict(num_layers=3, bidirectional=True))}
    for name, (make, options) in layers.items():
        torch.manual_seed(123)
        layer = make(3, 4, **options)
        a[f"{name}.keys"] = text("\n".join(layer.state_dict()))
        for key, value in layer.state_dict().items():
            a[f"{name}.{key}"] = value.clone()
        layer = layer.double()
        r = seeded(7)
        x = torch.randn(5, 4, 3, generator=r, dtype=torch.float64)
        if options.get("batch_first"):
            x = x.transpose(0, 1).contiguous()
        rows, width = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1), options.get("proj_size") or 4
        state = torch.randn(rows, 4, width, generator=r, dtype=torch.float64)
        if make is nn.LSTM:
            state = (state, torch.randn(rows, 4, 4, generator=r, dtype=torch.float64))
        a[f"{name}.x"] = x.clone()
        a.update({f"{name}.state{i}": s.clone() for i, s in enumerate(state if make is nn.LSTM else (state,))})
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=options.get("batch_first", False), enforce_sorted=False)
        for kind, given, states in (("zero", x, (None,)), ("given", x, (state,)), ("packed", packed, (state,))):
            layer.zero_grad()
            y, end = layer(given, *states)
            end = end if make is nn.LSTM else (end,)
            if kind == "packed":
                y = nn.utils.rnn.pad_packed_sequence(y, batch_first=options.get("batch_first", False), padding_value=-1.0)[0]
            a[f"{name}.{kind}.y"] = y.detach().contiguous()
            a.update({f"{name}.{kind}.end{i}": s.detach().contiguous() for i, s in enumerate(end)})
            (y.square().sum() + sum(s.square().sum() for s in end)).backward()
            a.update({f"{name}.{kind}.d_{key}": p.grad.clone() for key, p in layer.named_parameters()})
    for name, (make, options) in {"rnn_cell": (nn.RNNCell, {}), "rnn_cell_relu": (nn.RNNCell, dict(nonlinearity="relu", bias=False)), "lstm_cell": (nn.LSTMCell, {}),
                                  "gru_cell": (nn.GRUCell, {})}.items():
        torch.manual_seed(123)
        cell = make(3, 4, **options)
        for key, value in cell.state_dict().items():
            a[f"{name}.{key}"] = value.clone()
        r = seeded(8)
        x, h, c = (torch.randn(2, size, generator=r, dtype=torch.float64) for size in (3, 4, 4))
        a[f"{name}.x"], a[f"{name}.h"], a[f"{name}.c"] = x, h, c
        end = cell.double()(x, (h, c) if make is nn.LSTMCell else h)
        a.update({f"{name}.end{i}": s.detach().clone() for i, s in enumerate(end if make is nn.LSTMCell else (end,))})
    a["text"] = text("\n".join(map(str, (nn.RNN(3, 4), nn.LSTM(3, 4, 2, bias=False, batch_first=True, dropout=0.5, bidirectional=True), nn.LSTM(3, 4, proj_size=2), nn.GRU(3, 4),
                                        nn.RNNCell(3, 4), nn.RNNCell(3, 4, False, "relu"), nn.LSTMCell(3, 4), nn.GRUCell(3, 4, bias=False)))))
    return a


MEMORY_ORDERS = {  # of one shape, [2, 3, 4, 5]: the memory's shape, and the view of it
    "contiguous": ((2, 3, 4, 5), lambda x: x),
    "transposed": ((2, 3, 5, 4), lambda x: x.transpose(2, 3)),
    "permuted": ((5, 3, 2, 4), lambda x: x.permute(2, 1, 3, 0)),
    "sliced": ((2, 3, 4, 10), lambda x: x[..., ::2]),
    "sliced_transposed": ((2, 3, 5, 8), lambda x: x.transpose(2, 3)[:, :, ::2]),
    "expanded": ((2, 1, 4, 5), lambda x: x.expand(2, 3, 4, 5)),
    "expanded_permuted": ((5, 4, 2), lambda x: x.permute(2, 1, 0).unsqueeze(1).expand(2, 3, 4, 5)),
    "channels_last": ((2, 4, 5, 3), lambda x: x.permute(0, 3, 1, 2)),
    "channels_last_sliced": ((2, 4, 10, 3), lambda x: x.permute(0, 3, 1, 2)[..., ::2]),
    "channels_first_of_all": ((3, 2, 4, 5), lambda x: x.transpose(0, 1)),
}


def memory_order():
    """How results lie in memory, and in which order random numbers are drawn: docs/reference/memory_order.md."""
    a = {}
    inputs = {}
    for name, (shape, view) in MEMORY_ORDERS.items():
        n = int(np.prod(shape))
        inputs[name] = view((torch.arange(n) * 7 % n / n).reshape(shape))
        a[f"input.{name}"] = torch.tensor(inputs[name].stride())
    dense = inputs["contiguous"]
    row, weight = dense[0, 0, 0], torch.full((5, 3, 2, 2), 0.5)
    operations = {
        "neg": lambda x: -x, "add": lambda x: x + dense, "add_to_dense": lambda x: dense + x, "add_row": lambda x: x + row, "add_number": lambda x: x + 1,
        "lt": lambda x: x < 0.5, "where": lambda x: torch.where(x < 0.5, x, row), "lerp": lambda x: torch.lerp(x, dense, 0.5),
        "addcmul": lambda x: torch.addcmul(row, x, x), "clamp": lambda x: torch.clamp(x, x, dense), "to": lambda x: x.double(), "clone": lambda x: x.clone(),
        "zeros_like": torch.zeros_like, "rand_like": torch.rand_like, "dropout": lambda x: F.dropout(x, 0.5), "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, True),
        "dropout2d": lambda x: F.dropout2d(x, 0.5), "mse_loss": lambda x: F.mse_loss(x, dense, reduction="none"), "flip": lambda x: x.flip(1), "sort": lambda x: x.sort(1)[0],
        "cumsum": lambda x: x.cumsum(1), "softmax": lambda x: x.softmax(1), "sum": lambda x: x.sum(1), "matmul": lambda x: x @ x.mT, "linear": lambda x: F.linear(x, torch.ones(2, 5)),
        "layer_norm": lambda x: F.layer_norm(x, (5,)), "rms_norm": lambda x: F.rms_norm(x, (5,)), "group_norm": lambda x: F.group_norm(x, 3),
        "batch_norm": lambda x: F.batch_norm(x, None, None, training=True), "prelu": lambda x: F.prelu(x, torch.ones(3)), "cat": lambda x: torch.cat([x, x], 1),
        "cat_with_dense": lambda x: torch.cat([x, dense], 1), "stack": lambda x: torch.stack([x, x], 1), "pad": lambda x: F.pad(x, (1, 0, 0, 2)),
        "pad_reflect": lambda x: F.pad(x, (1, 0, 0, 2), mode="reflect"), "masked_fill": lambda x: x.masked_fill(x < 0.5, 1.0), "index_select": lambda x: x.index_select(1, torch.tensor([0, 2])),
        "gather": lambda x: x.gather(1, torch.zeros(2, 3, 4, 5, dtype=torch.long)), "roll": lambda x: x.roll(1, 1), "tril": torch.tril, "repeat": lambda x: x.repeat(2, 1, 1, 1),
        "glu": lambda x: F.glu(x.narrow(2, 0, 4), 2), "attention": lambda x: F.scaled_dot_product_attention(x, x, x), "conv2d": lambda x: F.conv2d(x, weight),
        "conv_transpose2d": lambda x: F.conv_transpose2d(x, weight.transpose(0, 1).contiguous()), "max_pool2d": lambda x: F.max_pool2d(x, 2), "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
        "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (2, 3)), "upsample": lambda x: F.interpolate(x, scale_factor=2.0),
    }
    for name, f in operations.items():
        for layout, x in inputs.items():
            if name != "stack" or "channels_last" not in layout:  # PyTorch stacks images as one long image
                a[f"{name}.{layout}"] = torch.tensor(f(x).stride())
    for first, x in inputs.items():
        for second, y in inputs.items():
            a[f"pair.{first}.{second}"] = torch.tensor((x + y).stride())

    def drawn(name, f):
        torch.manual_seed(123)
        a[f"draw.{name}"] = f().detach().clone()
    for layout, x in inputs.items():
        drawn(f"rand_like.{layout}", lambda: torch.rand_like(x))
        drawn(f"randn_like.{layout}", lambda: torch.randn_like(x))
        drawn(f"dropout.{layout}", lambda: F.dropout(torch.ones_like(x), 0.3))
        if "expanded" not in layout:
            drawn(f"uniform_.{layout}", lambda: inputs_again(layout).uniform_(-1, 2))
            drawn(f"normal_.{layout}", lambda: nn.init.normal_(inputs_again(layout), 0.5, 2))
            drawn(f"trunc_normal_.{layout}", lambda: nn.init.trunc_normal_(inputs_again(layout)))
            drawn(f"trunc_normal_tail.{layout}", lambda: nn.init.trunc_normal_(inputs_again(layout), 0.1, 0.5, 1.0, 1.5))
            drawn(f"bf16.{layout}", lambda: torch.randn_like(x.bfloat16()).float())
    for rows, columns in ((5, 7), (50, 40), (4, 3)):
        turned = torch.empty(rows, columns).t()
        for name, f in {"randn_like": torch.randn_like, "sparse_": lambda x: nn.init.sparse_(x, 0.3), "orthogonal_": nn.init.orthogonal_}.items():
            if rows * columns < 100 or name == "randn_like":
                drawn(f"{name}.{rows}x{columns}", lambda: f(turned))

    # What draws behind layers whose results are channels-last here.
    image = torch.rand(2, 3, 6, 6, generator=seeded(3))
    a["image"] = image.clone()
    last = image.contiguous(memory_format=torch.channels_last)
    mask = lambda x: (F.dropout(torch.ones_like(x), 0.5) != 0).float()
    conv, line = nn.Conv2d(3, 4, 3), nn.Conv1d(3, 4, 3)
    programs = {
        "conv": lambda: mask(conv(image)), "conv_last": lambda: mask(conv(last)), "relu": lambda: mask(F.relu(conv(image))),
        "norm_pool": lambda: mask(F.max_pool2d(nn.BatchNorm2d(4)(conv(image)), 2)), "norm_pool_last": lambda: mask(F.max_pool2d(nn.BatchNorm2d(4)(conv(last)), 2)),
        "residual": lambda: mask(conv(image) + torch.zeros(2, 4, 4, 4)), "residual_first": lambda: mask(torch.zeros(2, 4, 4, 4) + conv(image)),
        "to_last": lambda: mask(conv(image).permute(0, 2, 3, 1)), "to_last_sum": lambda: mask(conv(image).permute(0, 2, 3, 1) + torch.zeros(2, 4, 4, 4)),
        "patches": lambda: mask(conv(image).flatten(2).transpose(1, 2)), "patches_sum": lambda: mask(conv(image).flatten(2).transpose(1, 2) + torch.zeros(1, 16, 4)),
        "part": lambda: mask(conv(image)[:, 1:3, 1]), "double": lambda: mask(conv(image).double()), "flat": lambda: mask(conv(image).flatten(1)),
        "cat": lambda: mask(torch.cat([conv(image), conv(image)], 1)), "cat_last": lambda: mask(torch.cat([conv(last), conv(last)], 1)),
        "upsample": lambda: mask(F.interpolate(conv(image), scale_factor=2.0)), "group_norm": lambda: mask(F.group_norm(conv(last), 2)),
        "pad": lambda: mask(F.pad(conv(image), (1, 1, 1, 1))), "pad_last": lambda: mask(F.pad(conv(last), (1, 1, 1, 1))), "conv1d": lambda: mask(line(image[:, :, 0])),
        "conv1d_last": lambda: mask(line(image[:, :, 0].transpose(1, 2).contiguous().transpose(1, 2))), "made_last": lambda: mask(conv(image).contiguous(memory_format=torch.channels_last)),
        "made_row_major": lambda: mask(conv(last).contiguous()), "pool_of_last": lambda: mask(F.adaptive_avg_pool2d(last, (3, 2))), "normal": lambda: torch.randn_like(conv(image)),
        "normal_last": lambda: torch.randn_like(conv(last)),
    }
    for name, f in programs.items():
        drawn(f"program.{name}", f)

    for name, batch_first in (("batch_first", True), ("batch_second", False)):
        torch.manual_seed(7)
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.3, batch_first=batch_first)
        x = torch.rand(3, 5, 8, generator=seeded(9))
        a["encoder.input"] = x.clone()
        a[f"encoder.{name}"] = layer(x).detach()
        attention = layer.self_attn
        a[f"encoder.{name}.strides"] = torch.tensor(attention(x, x, x)[0].stride())
    return a


def inputs_again(layout):
    """Uninitialised memory that lies so."""
    shape, view = MEMORY_ORDERS[layout]
    return view(torch.zeros(shape))


def reduction_rows():
    """The rows of core/reductions/list.def: (name, dtypes that it takes, whether it has a gradient, its number p)."""
    text = (ROOT / "core/reductions/list.def").read_text()
    rows = []
    for line in re.findall(r"^DL_REDUCTION(?:_WITH)?\((k.*)\)$", text, re.MULTILINE):
        columns = next(csv.reader([line], skipinitialspace=True))
        p = float(columns[12].replace("kInfinity", "inf")) if len(columns) > 12 else 0.0
        rows.append((columns[1], columns[4], columns[8] == "kGradcheck", p))
    return rows


def reduced(name, x, dims, p):
    """PyTorch's reduction over several dimensions, which are kept."""
    if name == "prod":
        kept = [1 if d in dims else n for d, n in enumerate(x.shape)]
        return x.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims)).prod(-1).reshape(kept)
    if name == "count_nonzero":
        return torch.count_nonzero(x, dims).reshape([1 if d in dims else n for d, n in enumerate(x.shape)])
    if name in ("var", "std"):
        return getattr(torch, name)(x, dim=dims, correction=p, keepdim=True)
    if name == "norm":
        return torch.linalg.vector_norm(x, ord=p, dim=dims, keepdim=True)
    return getattr(torch, name)(x, dim=dims, keepdim=True)


def reductions():
    """core/reductions: each row over one, two and all dimensions, of ordinary numbers, of few different ones and of some that are
    not finite; float64 values and gradients, and the largest errors of PyTorch's own float32. Of integers, bool: values and dtypes."""
    nan, inf = float("nan"), float("inf")
    turns = torch.arange(1, 61, dtype=torch.float64) * 0.6180339887498949 % 1
    plain = (4 * turns - 1.7).to(torch.float32).to(torch.float64).reshape(3, 4, 5)
    few = (torch.arange(60) * 7 % 5 - 1).to(torch.float64).reshape(3, 4, 5)
    odd = plain.clone()
    odd[0, 0, 0], odd[0, 1, 1], odd[1, 2, 2], odd[2, :, 3], odd[1, 0] = nan, inf, -inf, inf, -inf
    inputs = {"plain": plain, "few": few, "odd": odd}
    over = {"1": (1,), "02": (0, 2), "012": (0, 1, 2)}
    a = {f"{kind}.x": x for kind, x in inputs.items()}
    a["weights"] = (torch.arange(60, dtype=torch.float64) % 7 / 4 - 1)
    for name, takes, gradient, p in reduction_rows():
        for kind, x in inputs.items():
            for where, dims in over.items():
                key = f"{name}.{p:g}.{kind}.{where}"
                both = {}
                for dtype in (torch.float64, torch.float32):
                    leaf = x.clone().to(dtype).requires_grad_(gradient)
                    y = reduced(name, leaf, dims, p)
                    if gradient:
                        (y * a["weights"][:y.numel()].reshape(y.shape).to(dtype)).sum().backward()
                    both[dtype] = y.detach().double(), (torch.zeros_like(x) if leaf.grad is None else leaf.grad.double()) if gradient else None
                for i, what in enumerate(("y", "grad")[:2 if gradient else 1]):
                    exact, single = both[torch.float64][i], both[torch.float32][i]
                    a[f"{key}.{what}"] = exact
                    finite = exact.isfinite() & single.isfinite()
                    largest = exact[finite].abs().max().clamp(min=1e-300) if finite.any() else 1
                    error = (single - exact)[finite].abs().max() if finite.any() else 0
                    a[f"{key}.{what}.float32_error"] = torch.as_tensor(error / largest).double().reshape(1)
        for dtype in (torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64) if takes == "kAll" else ():
            if name in ("amax", "amin") or takes == "kAll":
                y = reduced(name, few.to(dtype), (1,), p)
                a[f"{name}.{str(dtype)[6:]}.dtype"] = text(str(y.dtype)[6:])
                a[f"{name}.{str(dtype)[6:]}.y"] = y.double()
        empty = None
        try:
            empty = reduced(name, torch.zeros(2, 0, dtype=torch.float64), (1,), p)
        except (IndexError, RuntimeError):
            pass
        a[f"{name}.{p:g}.empty"] = torch.zeros(0, dtype=torch.float64) if empty is None else empty.double()
    for name, p, dim, eps in (("2.1", 2, 1, 1e-12), ("1.2", 1, -1, 1e-12), ("3.0", 3, 0, 10)):
        leaf = plain.clone().requires_grad_()
        y = F.normalize(leaf, p, dim, eps)
        (y ** 3).sum().backward()
        a[f"normalize.{name}.y"], a[f"normalize.{name}.grad"] = y.detach(), leaf.grad
    for name in ("max", "min"):
        for kind, x in inputs.items():
            for dim in (0, 1, 2):
                leaf = x.clone().requires_grad_()
                y, places = getattr(torch, name)(leaf, dim)
                (y * a["weights"][:y.numel()].reshape(y.shape)).sum().backward()
                a[f"{name}.{kind}.{dim}.y"], a[f"{name}.{kind}.{dim}.places"], a[f"{name}.{kind}.{dim}.grad"] = y.detach(), places, leaf.grad
            leaf = x.clone().requires_grad_()
            y = getattr(torch, name)(leaf)
            y.backward()
            a[f"{name}.{kind}.all.y"], a[f"{name}.{kind}.all.grad"] = y.detach(), leaf.grad
            a[f"{name}.{kind}.all.places"] = getattr(torch, "arg" + name)(x)
    return a


def order():
    """core/ops/order: sort (stable), topk and cumsum along each dimension of distinct numbers, few different ones, and some that are not
    finite; cumsum's gradient."""
    turns = torch.arange(1, 61, dtype=torch.float64) * 0.6180339887498949 % 1
    plain = (4 * turns - 1.7).to(torch.float32).to(torch.float64).reshape(3, 4, 5)
    few = (torch.arange(60) * 7 % 5 - 1).to(torch.float64).reshape(3, 4, 5)
    few[0, 1] = -0.0
    odd = plain.clone()
    odd[0, 0, 0], odd[0, 0, 2], odd[1, 2, 2], odd[2, :, 3], odd[1, 0] = float("nan"), float("nan"), float("-inf"), float("inf"), -0.0
    a = {}
    for kind, x in (("plain", plain), ("few", few), ("odd", odd)):
        a[f"{kind}.x"] = x
        for dim in range(3):
            for way, descending in (("up", False), ("down", True)):
                a[f"sort.{kind}.{dim}.{way}.y"], a[f"sort.{kind}.{dim}.{way}.places"] = torch.sort(x, dim=dim, descending=descending, stable=True)
            a[f"topk.{kind}.{dim}.y"], a[f"topk.{kind}.{dim}.places"] = torch.topk(x, 3, dim)
            leaf = x.clone().requires_grad_()
            y = leaf.cumsum(dim)
            (y * few).sum().backward()
            a[f"cumsum.{kind}.{dim}.y"], a[f"cumsum.{kind}.{dim}.grad"] = y.detach(), leaf.grad
    return a


def i64(*values):
    return torch.tensor(values)


def index_put(x, indices, value, accumulate=False):
    return x.clone().index_put(indices, value, accumulate)


def assigned(x, index, value):
    y = x.clone()
    y[index] = value
    return y


# Operations that are more than a row of one element: a function, and the shapes of its floating inputs. The case of the same name in
# tests/core/ops/composed_test.cc computes the same.
COMPOSED = {
    # two and three elements
    "pow": (lambda a, b: torch.pow(a.abs() + 0.3, b), [(3, 4), (4,)]),
    "pow of a number": (lambda b: torch.pow(1.7, b), [(3, 4)]),
    "pow to a number": (lambda a: torch.pow(a, 3), [(3, 4)]),
    "pow of integers": (lambda: torch.pow(i64(2, -3, 0, 7, -1, 1), i64(10, 3, 0, -1, -3, -2)), []),
    "pow of integers to a number": (lambda: torch.pow(i64(2, -3, 0, 7), 5), []),
    "atan2": (torch.atan2, [(3, 1), (4,)]),
    "fmod": (torch.fmod, [(5, 4), (4,)]),
    "fmod by a number": (lambda a: torch.fmod(a, -0.7), [(3, 5)]),
    "fmod of integers": (lambda: torch.fmod(i64(7, -7, 7, -7, 0), i64(3, 3, -3, -3, 5)), []),
    "remainder": (torch.remainder, [(5, 4), (4,)]),
    "remainder by a number": (lambda a: torch.remainder(a, -0.7), [(3, 5)]),
    "remainder of integers": (lambda: torch.remainder(i64(7, -7, 7, -7, 0), i64(3, 3, -3, -3, 5)), []),
    "floor_divide": (lambda a, b: torch.floor_divide(a, b).detach(), [(5, 4), (4,)]),
    "floor_divide of integers": (lambda: torch.floor_divide(i64(7, -7, 7, -7, 0), i64(3, 3, -3, -3, 5)), []),
    "lerp": (torch.lerp, [(3, 4), (3, 4), (3, 4)]),
    "lerp by a number": (lambda a, b: torch.lerp(a, b, 0.3), [(3, 1), (4,)]),
    "where": (lambda a, b: torch.where(a > 0.1, a, b), [(3, 4), (4,)]),
    "where with a number": (lambda a: torch.where(a > 0.1, a, -1.5), [(3, 4)]),
    "clamp by tensors": (lambda x, a, b: torch.clamp(x, a - 0.5, b + 0.5), [(4, 5), (5,), (4, 1)]),
    "clamp from below": (lambda x: torch.clamp(x, min=-0.3), [(4, 5)]),
    "clamp from above": (lambda x: torch.clamp(x, max=0.3), [(4, 5)]),
    "clamp of integers": (lambda: torch.clamp(i64(-5, 0, 3, 9), -1, 4), []),
    "clamp of integers by a half": (lambda: torch.clamp(i64(-5, 0, 3, 9), 0.5, 4), []),
    "masked_fill": (lambda x: x.masked_fill(x > 0.2, -3.5), [(3, 4)]),
    "masked_fill by a tensor": (lambda x, v: (x * 2).masked_fill(torch.tensor([True, False, True, False]), v), [(3, 4), ()]),
    "hypot": (torch.hypot, [(3, 1), (4,)]),
    "logaddexp": (torch.logaddexp, [(3, 1), (4,)]),
    "logaddexp2": (torch.logaddexp2, [(3, 1), (4,)]),
    "xlogy": (lambda a, b: torch.xlogy(a, b.abs()), [(3, 1), (4,)]),
    "xlogy of a number": (lambda b: torch.xlogy(-2.5, b.abs()), [(3, 4)]),
    "xlogy with a number": (lambda a: torch.xlogy(a, 0.3), [(3, 4)]),
    "xlogy of zeros": (lambda a, b: torch.xlogy(torch.where(a > 0, a, 0.), b.abs()), [(3, 4), (3, 4)]),
    "xlogy of integers": (lambda: torch.xlogy(i64(0, 2, -3, 0), i64(0, 3, 7, -1)), []),
    "copysign": (torch.copysign, [(3, 1), (4,)]),
    "copysign of a number": (lambda a: torch.copysign(a, -0.0), [(3, 4)]),
    "gcd": (lambda: torch.gcd(i64(12, -12, 0, 0, 7), i64(18, 18, -5, 0, 13)), []),
    "heaviside": (lambda: torch.heaviside(i64(-3, 0, 2), i64(5, 7, 9)), []),
    "addcmul": (lambda x, a, b: torch.addcmul(x, a, b, value=-1.5), [(3, 4), (4,), (3, 1)]),
    "addcmul of integers": (lambda: torch.addcmul(i64(1, 2), i64(3, -4), i64(5, 6), value=-2), []),
    "addcdiv": (lambda x, a, b: torch.addcdiv(x, a, b, value=0.5), [(3, 4), (4,), (3, 1)]),
    "nan_to_num": (lambda x: torch.nan_to_num(torch.where(x > 1, float("nan"), torch.where(x < -1, -float("inf"), x)), 0.5, neginf=-2.5), [(3, 4)]),
    # in place
    "pow_": (lambda a, b: (a.abs() + 0.3).pow_(b), [(3, 4), (4,)]),
    "hypot_": (lambda a, b: (a * 2).hypot_(b), [(3, 4), (4,)]),
    "xlogy_": (lambda a, b: (a * 2).xlogy_(b.abs()), [(3, 4), (4,)]),
    "addcmul_": (lambda x, a, b: (x * 2).addcmul_(a, b, value=3), [(3, 4), (4,), (3, 1)]),
    "lerp_": (lambda a, b: (a * 2).lerp_(b, 0.3), [(3, 4), (4,)]),
    "remainder_ by a number": (lambda a: (a * 2).remainder_(0.7), [(3, 4)]),
    "lt_": (lambda a: a.detach().clone().lt_(0.3), [(3, 4)]),
    "cumsum_": (lambda a: (a * 2).cumsum_(1), [(3, 4)]),
    "index_fill_": (lambda a, v: (a * 2).index_fill_(1, i64(2, 0), v), [(3, 4), ()]),
    # along dimensions
    "nanmean": (lambda x: torch.nanmean(torch.where(x > 1, float("nan"), x), 1), [(3, 4)]),
    "nansum of all": (lambda x: torch.nansum(torch.where(x > 1, float("nan"), x)), [(3, 4)]),
    "aminmax": (lambda x: torch.stack(torch.aminmax(x, dim=1)), [(3, 4)]),
    "cumprod": (lambda x: torch.cumprod(x, 1), [(3, 5)]),
    "cumprod of zeros": (lambda x: torch.cumprod(torch.where(x.abs() < 0.5, 0.0, x), 0), [(6, 5)]),
    "cumprod of integers": (lambda: torch.cumprod(i64(2, -3, 4), 0), []),
    "median": (lambda x: torch.median(x, 1)[0], [(3, 4)]),
    "median of all": (lambda x: torch.median(x), [(3, 4)]),
    "median with NaN": (lambda: torch.median(torch.tensor([[1, float("nan"), 0, 2], [3, 1, 2, 0]]), 1)[1], []),
    "nanmedian": (lambda x: torch.nanmedian(torch.where(x > 1, float("nan"), x), 0, keepdim=True)[0], [(5, 4)]),
    "nanmedian of all": (lambda x: torch.nanmedian(torch.where(x > 1, float("nan"), x)), [(3, 4)]),
    "quantile": (lambda x: torch.quantile(x, 0.3, 1), [(3, 4)]),
    "quantile of all": (lambda x: torch.quantile(x, 0.77, keepdim=True), [(3, 4)]),
    "quantile of several shares": (lambda x: torch.quantile(x, torch.tensor([0, 0.41, 1]).to(x), 0, keepdim=True), [(5, 3)]),
    **{f"quantile, {kind}": (lambda x, kind=kind: torch.quantile(x, 0.4, 1, interpolation=kind), [(3, 4)]) for kind in ("lower", "midpoint", "nearest")},
    "quantile with NaN": (lambda x: torch.quantile(torch.where(x > 1.9, float("nan"), x.detach()), 0.5, 1).isnan(), [(6, 5)]),
    "nanquantile": (lambda x: torch.nanquantile(torch.where(x > 1, float("nan"), x), 0.3, -1), [(3, 5)]),
    "nanquantile of several shares": (lambda x: torch.nanquantile(torch.where(x > 1, float("nan"), x), torch.tensor([0.9, 0.2]).to(x)), [(3, 5)]),
    "kthvalue": (lambda x: torch.kthvalue(x, 3, 1)[0], [(3, 4)]),
    "kthvalue's place": (lambda x: torch.kthvalue(x, 2, 0, True)[1], [(3, 4)]),
    "mode": (lambda x: torch.mode(x.round() * x / x)[0], [(3, 5)]),
    "mode's place": (lambda: torch.mode(i64(3, 1, 3, 1, 2, 5, 4, 4, 5, 5, 7, 6, 5, 4, 3).view(3, 5))[1], []),
    "mode of columns": (lambda: torch.mode(torch.tensor([[3., 1., 4.], [3., 7., 4.], [2., 1., 0.5]]), 0, True)[0], []),
    "searchsorted": (lambda x, v: torch.searchsorted(torch.sort(x, 1)[0], v.detach().expand(3, 5).contiguous()), [(3, 4), (3, 1)]),
    "searchsorted, right": (lambda: torch.searchsorted(i64(1, 3, 3, 5, 9), i64(3, 0, 9, 10).view(2, 2), right=True), []),
    "searchsorted with NaN": (lambda: torch.searchsorted(torch.tensor([1., 2., float("nan")]), torch.tensor([float("nan"), 5., 2.])), []),
    "searchsorted of a number": (lambda: torch.searchsorted(i64(1, 3, 3, 5, 9), 3.5), []),
    "searchsorted with a sorter": (lambda: torch.searchsorted(i64(9, 1, 5, 3), i64(4, 9, 0), sorter=torch.argsort(i64(9, 1, 5, 3))), []),
    "bucketize": (lambda x: torch.bucketize(x.detach(), torch.tensor([-1., -0.2, 0.4, 1.1])), [(3, 4)]),
    "bucketize, right": (lambda: torch.bucketize(i64(3, 6, 9, 3, 6, 9).view(2, 3), i64(1, 3, 5, 7, 9), right=True), []),
    "unique rows": (lambda: torch.cat([t.reshape(-1) for t in torch.unique(i64(2, 1, 0, 5, 2, 1, 0, 4).view(4, 2), return_inverse=True, return_counts=True, dim=0)]), []),
    "unique columns": (lambda: torch.unique(i64(2, 1, 2, 0, 5, 0).view(2, 3), dim=-1), []),
    "unique": (lambda: torch.unique(i64(3, 1, 3, 0, 1)), []),
    "unique, the inverse": (lambda: torch.unique(i64(3, 1, 3, 0, 1, 1).view(2, 3), return_inverse=True)[1], []),
    "unique, the counts": (lambda: torch.unique(i64(3, 1, 3, 0, 1), return_counts=True)[1], []),
    "unique_consecutive": (lambda: torch.stack(torch.unique_consecutive(i64(3, 3, 1, 3, 3, 3), return_counts=True)), []),
    "bincount": (lambda: torch.bincount(i64(3, 1, 3, 0, 1), minlength=6), []),
    "bincount with weights": (lambda: torch.bincount(i64(3, 1, 3), torch.tensor([0.5, 1, 2])), []),
    # truth and bits
    "bitwise_left_shift": (lambda: torch.bitwise_left_shift(i64(1, -2, 3, 4), i64(3, 70, -1, 63)), []),
    "bitwise_right_shift": (lambda: torch.bitwise_right_shift(i64(100, -2, 3, -5), i64(3, 70, -1, 1)), []),
    "logical_and": (lambda a: torch.logical_and(a > 0, torch.tensor([0., 2., -1., float("nan")])), [(3, 4)]),
    "logical_or": (lambda a: torch.logical_or(a > 0, torch.tensor([0., 2., -1., float("nan")])), [(3, 4)]),
    "logical_xor": (lambda a: torch.logical_xor(a > 0, torch.tensor([0., 2., -1., float("nan")])), [(3, 4)]),
    "logical_not": (lambda a: torch.logical_not(a > 0), [(3, 4)]),
    "bitwise_and": (lambda: i64(12, -5, 7) & i64(10, 6, -1), []),
    "bitwise_or": (lambda: i64(12, -5, 7) | 9, []),
    "bitwise_xor": (lambda: i64(12, -5, 7) ^ i64(10, 6, -1), []),
    "bitwise_not": (lambda: ~i64(12, -5, 7), []),
    "bits of bools": (lambda a: ((a > 0) & (a < 1)) | ~(a > -1) ^ (a > 1.5), [(3, 4)]),
    "isnan": (lambda: torch.isnan(torch.tensor([1., float("nan"), float("inf"), -float("inf"), 0.])), []),
    "isinf": (lambda: torch.isinf(torch.tensor([1., float("nan"), float("inf"), -float("inf"), 0.])), []),
    "isfinite": (lambda: torch.isfinite(torch.tensor([1., float("nan"), float("inf"), -float("inf"), 0.])), []),
    "isclose": (lambda: torch.isclose(torch.tensor([1., 1., float("nan"), float("inf"), 0.]), torch.tensor([1.000009, 1.0001, float("nan"), float("inf"), 1e-9])), []),
    # indices
    "gather": (lambda x: x.gather(1, i64(3, 0, 1, 1, 2, 2).view(3, 2)), [(3, 4)]),
    "gather of a part": (lambda x: x.gather(0, i64(3, 0, 1, 1).view(2, 2)), [(4, 5)]),
    "scatter": (lambda x, s: x.scatter(1, i64(3, 0, 1, 2, 2, 0).view(3, 2), s), [(3, 4), (3, 2)]),
    "scatter a number": (lambda x: x.scatter(0, i64(1, 0, 1, 2).view(1, 4), 2.5), [(3, 4)]),
    "scatter_add": (lambda x, s: x.scatter_add(1, i64(3, 3, 1, 2, 2, 2).view(3, 2), s), [(3, 4), (3, 2)]),
    "index_add": (lambda x, s: x.index_add(1, i64(2, 0, 2), s, alpha=-1.5), [(3, 4), (3, 3)]),
    "index_select": (lambda x: x.index_select(1, i64(2, 0, 2)), [(3, 4)]),
    "index_copy": (lambda x, s: x.index_copy(1, i64(2, 0, 3), s), [(3, 4), (3, 3)]),
    "index_fill": (lambda x: x.index_fill(1, i64(2, 0, -1), -1.5), [(3, 4)]),
    "index_fill by a tensor": (lambda x, v: x.index_fill(0, i64(2, 0), v), [(3, 4), ()]),
    "masked_scatter": (lambda x, s: x.masked_scatter(torch.tensor([True, False, True, False]), s), [(3, 4), (7,)]),
    **{f"scatter_reduce {kind}": (lambda x, s, kind=kind: x.scatter_reduce(1, i64(3, 3, 1, 2, 2, 2).view(3, 2), s, kind), [(3, 4), (3, 2)])
       for kind in ("sum", "prod", "mean", "amax", "amin")},
    **{f"scatter_reduce of the source alone, {kind}": (
        lambda x, s, kind=kind: x.scatter_reduce(1, i64(3, 3, 1, 2, 2, 2).view(3, 2), s, kind, include_self=False), [(3, 4), (3, 2)])
       for kind in ("sum", "prod", "mean", "amax", "amin")},
    "scatter_reduce of zeros": (lambda x, s: torch.where(x > 1, 0, x).scatter_reduce(0, i64(1, 0, 1, 2, 1, 1, 1, 2).view(2, 4), torch.where(s > 0.5, 0, s), "prod"),
                                [(3, 4), (2, 4)]),
    "scatter_reduce of integers": (lambda: i64(7, 1, 2).scatter_reduce(0, i64(0, 0, 2), i64(3, -20, 8), "mean"), []),
    "take": (lambda x: x.take(i64(5, 0, -1, 5).view(2, 2)), [(3, 4)]),
    "take_along_dim": (lambda x: x.take_along_dim(i64(3, 0).view(1, 2), 1), [(3, 4)]),
    "masked_select": (lambda x: x.masked_select(torch.tensor([True, False, True, True])), [(3, 4)]),
    "nonzero": (lambda a: torch.nonzero(a > 0.3), [(3, 4)]),
    "one_hot": (lambda: F.one_hot(i64(2, 0, 1, 2).view(2, 2), 4), []),
    "index with integers": (lambda x: x[1, -1], [(3, 4, 5)]),
    "index with slices": (lambda x: x[1:, ::2, None, ..., -3:-1], [(3, 4, 5)]),
    "index with a tensor": (lambda x: x[i64(2, 0, -1, 2)], [(3, 4)]),
    "index with tensors": (lambda x: x[i64(2, 0).view(2, 1), :, i64(1, -1, 0)], [(3, 4, 5)]),
    "index with adjacent tensors": (lambda x: x[:, i64(2, 0).view(2, 1), i64(1, -1, 0)], [(3, 4, 5)]),
    "index with all kinds": (lambda x: x[1, ..., i64(1, -1, 0), None, 1:3], [(3, 4, 5, 6)]),
    "index with a mask": (lambda x: x[x > 0.3], [(3, 4)]),
    "index with a mask of rows": (lambda x: x[:, torch.tensor([True, False, True, True])], [(3, 4, 2)]),
    "index_put_": (lambda x, v: index_put(x, (i64(2, 0, 1),), v), [(3, 4), (4,)]),
    "index_put_ that adds": (lambda x, v: index_put(x, (i64(2, 0, 2), i64(1, 1, 1)), v, True), [(3, 4), (3,)]),
    "assignment to slices": (lambda x, v: assigned(x, (slice(1, None), slice(None, None, 2)), v), [(3, 4), (2, 1)]),
    "assignment to a mask": (lambda x: assigned(x, (x > 0.3).detach(), -1.0), [(3, 4)]),
    "assignment to mixed places": (lambda x, v: assigned(x, (1, slice(None), i64(0, 3)), v), [(3, 4, 5), (4, 2)]),
    # shapes
    "split": (lambda x: torch.cat([p * (i + 1) for i, p in enumerate(x.split(2, 1))], 1), [(3, 5)]),
    "split by sizes": (lambda x: torch.cat([p * (i + 1) for i, p in enumerate(x.split([1, 3, 0, 1], 1))], 1), [(3, 5)]),
    "chunk": (lambda x: torch.cat([p * (i + 1) for i, p in enumerate(x.chunk(3, 0))], 0), [(7, 2)]),
    "unbind": (lambda x: torch.stack([p * (i + 1) for i, p in enumerate(x.unbind(1))], 0), [(3, 4)]),
    "movedim": (lambda x: x.movedim((0, 2), (-1, 0)), [(2, 3, 4)]),
    "swapaxes": (lambda x: x.swapaxes(0, -1), [(2, 3, 4)]),
    "ravel": (lambda x: x.mT.ravel(), [(3, 4)]),
    "atleast_1d": (lambda x, y: torch.cat(torch.atleast_1d(x, y)), [(), (3,)]),
    "atleast_2d": (lambda x, y: torch.cat([torch.atleast_2d(x), torch.atleast_2d(y).T]), [(), (3,)]),
    "atleast_3d": (lambda x, y, z: torch.cat([torch.atleast_3d(x), torch.atleast_3d(y).transpose(0, 1), torch.atleast_3d(z)], 1), [(), (1,), (1, 4)]),
    "hstack": (lambda x, y: torch.hstack([x, y]), [(3, 2), (3, 4)]),
    "hstack of vectors": (lambda x, y: torch.hstack([x, y]), [(3,), (2,)]),
    "vstack": (lambda x, y: torch.vstack([x, y]), [(3,), (2, 3)]),
    "dstack": (lambda x, y: torch.dstack([x, y]), [(3,), (1, 3, 2)]),
    "T": (lambda x: x.permute(2, 1, 0), [(2, 3, 4)]),
    "mT": (lambda x: x.mT, [(2, 3, 4)]),
    "unflatten": (lambda x: x.unflatten(1, (2, -1)), [(2, 6)]),
    "expand_as": (lambda x, y: x.expand_as(y) * y, [(3, 1), (3, 4)]),
    "view_as": (lambda x, y: x.view_as(y) * y, [(12,), (3, 4)]),
    "meshgrid": (lambda x, y: torch.stack(torch.meshgrid(x, y, indexing="xy")), [(3,), (4,)]),
    "repeat": (lambda x: x.repeat(2, 1, 3), [(2, 3)]),
    "tile": (lambda x: x.tile(3), [(2, 3)]),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), [(2, 3)]),
    "repeat_interleave by a tensor": (lambda x: x.repeat_interleave(i64(2, 0, 3), 1), [(2, 3)]),
    "flip": (lambda x: x.flip(0, -1), [(2, 3, 4)]),
    "fliplr": (lambda x: x.fliplr(), [(2, 3, 2)]),
    "flipud": (lambda x: x.flipud(), [(3, 2)]),
    "roll": (lambda x: x.roll((1, -2), (0, 1)), [(3, 5)]),
    "roll of all": (lambda x: x.roll(4), [(3, 5)]),
    "tril": (lambda x: x.tril(-1), [(2, 4, 5)]),
    "triu": (lambda x: x.triu(1), [(2, 4, 5)]),
    "diagonal": (lambda x: x.diagonal(1, 0, 2), [(3, 2, 4)]),
    "trace": (torch.trace, [(3, 4)]),
    "diag of a matrix": (lambda x: x.diag(-1), [(4, 3)]),
    "diag of a vector": (lambda x: x.diag(2), [(3,)]),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), [(2, 8, 2, 3)]),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 3), [(2, 3, 6)]),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 3), [(2, 6, 2, 3)]),
    "prelu": (F.prelu, [(2, 3, 4), (3,)]),
    "prelu of one": (F.prelu, [(2, 3), (1,)]),
    "glu": (lambda x: F.glu(x, 1), [(3, 4, 2)]),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 3), value=0.5), [(2, 3, 4)]),
    "pad that cuts": (lambda x: F.pad(x, (-1, 2, 1, -2)), [(2, 3, 4)]),
    "pad by reflection": (lambda x: F.pad(x, (2, 1), mode="reflect"), [(2, 3, 4)]),
    "pad by replication": (lambda x: F.pad(x, (2, 3, 1, 0), mode="replicate"), [(2, 3, 4)]),
    "pad in a circle": (lambda x: F.pad(x, (2, 3), mode="circular"), [(2, 3, 4)]),
    # products
    "mm": (torch.mm, [(3, 4), (4, 5)]),
    "bmm": (torch.bmm, [(6, 3, 4), (6, 4, 5)]),
    "matmul of batches": (torch.matmul, [(2, 1, 3, 4), (5, 4, 2)]),
    "matmul with one matrix": (torch.matmul, [(2, 3, 4), (4, 5)]),
    "matmul of transposes": (lambda a, b: torch.matmul(a.mT, b.mT), [(3, 4, 2), (3, 5, 4)]),
    "mv": (torch.mv, [(3, 4), (4,)]),
    "dot": (torch.dot, [(5,), (5,)]),
    "outer": (torch.outer, [(3,), (4,)]),
    "addmm": (lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=-2), [(5,), (3, 4), (4, 5)]),
    "addmv": (lambda x, a, b: torch.addmv(x, a, b, beta=0.5, alpha=-2), [(3,), (3, 4), (4,)]),
    "addr": (lambda x, a, b: torch.addr(x, a, b, alpha=3), [(4,), (3,), (4,)]),
    "baddbmm": (lambda x, a, b: torch.baddbmm(x, a, b, beta=0.5, alpha=-2), [(1, 5), (2, 3, 4), (2, 4, 5)]),
    "addbmm": (lambda x, a, b: torch.addbmm(x, a, b, beta=0.5, alpha=-2), [(5,), (2, 3, 4), (2, 4, 5)]),
    "tensordot": (lambda a, b: torch.tensordot(a, b), [(2, 3, 4), (3, 4, 2)]),
    "tensordot of named dimensions": (lambda a, b: torch.tensordot(a, b, ([0, -1], [2, 0])), [(2, 3, 4), (4, 5, 2)]),
    **{case: (lambda *x, equation=equation: torch.einsum(equation, *x), shapes) for case, equation, shapes in (
        ("einsum", "ij,jk->ik", [(3, 4), (4, 5)]), ("einsum of a batch", "bnqd, bnkd -> bqnk", [(2, 3, 2, 3), (2, 3, 2, 3)]),
        ("einsum of a transpose", "ba", [(2, 3)]), ("einsum of a trace", "ii", [(3, 3)]),
        ("einsum of diagonals", "iji->ij", [(3, 2, 3)]),
        ("einsum with dots", "...ij,...jk", [(2, 1, 3, 4), (5, 4, 2)]), ("einsum with dots inside", "a...b,b->...a", [(2, 3, 2, 4), (4,)]),
        ("einsum that sums dots", "...i->i", [(2, 3, 4)]), ("einsum without a sum", "i,j->ij", [(3,), (4,)]),
        ("einsum of products", "ij,ij->", [(3, 4), (3, 4)]), ("einsum of three", "bi,oij,bj->bo", [(3, 4), (2, 4, 5), (3, 5)]),
        ("einsum of four", "ab,bc,cd,da->bd", [(2, 3), (3, 4), (4, 5), (5, 2)]),
        ("einsum with size 1", "ij,jk->ik", [(3, 1), (4, 5)]), ("einsum in upper case", "bA,aB", [(2, 3), (2, 2)]),
        ("einsum with a diagonal in a product", "iij,jk", [(3, 3, 2), (2, 4)]), ("einsum of numbers", ",i->i", [(), (3,)]))},
    "einsum of integers": (lambda: torch.einsum("ij,kj->ki", torch.arange(-6, 6).view(3, 4), torch.arange(8).view(2, 4)), []),
    "matmul of integers": (lambda: torch.matmul(torch.arange(-6, 6).view(3, 4), torch.arange(8).view(4, 2)), []),
    # creation
    "linspace": (lambda: torch.linspace(-1, 2, 7, dtype=torch.float64), []),
    "logspace": (lambda: torch.logspace(-1, 2, 7, base=2, dtype=torch.float64), []),
    "eye": (lambda: torch.eye(3, 4, dtype=torch.float64), []),
}


def composed():
    """core/ops: inputs x0, x1, ..., results y, and the gradients g0, g1, ... of the sum of y (i mod 7 - 3) / 2 over its elements i."""
    return computed_cases(COMPOSED)


def computed_cases(cases):
    a = {}
    for case, (f, shapes) in cases.items():
        inputs, start = [], 0
        for shape in shapes:
            count = torch.Size(shape).numel()
            turns = (torch.arange(start + 1, start + count + 1, dtype=torch.float64) * 0.6180339887498949) % 1
            inputs.append((-2 + 4 * turns).to(torch.float32).to(torch.float64).view(shape).requires_grad_())
            start += count + 11
        y = f(*inputs)
        a[f"{case}.y"] = y.detach().clone()
        for i, x in enumerate(inputs):
            a[f"{case}.x{i}"] = x.detach()
        if y.requires_grad:
            (y * ((torch.arange(y.numel(), dtype=torch.float64) % 7 - 3) / 2).view(y.shape)).sum().backward()
            for i, x in enumerate(inputs):
                a[f"{case}.g{i}"] = x.grad
    return a


def well_posed(x):
    return x + 3 * torch.eye(x.shape[-1], dtype=x.dtype)


def uneven(x):
    """The inputs are multiples of one number modulo another, and so their matrices of rank 2."""
    return x + (5 * x).sin()


def positive(x):
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


def outer_of_svd(x, full=False):
    """What does not depend on the vectors' signs."""
    u, s, vh = torch.linalg.svd(x, full_matrices=full)
    u, vh = u[..., :s.shape[-1]], vh[..., :s.shape[-1], :]
    return (u ** 2 * s.unsqueeze(-2)) @ vh ** 2 + u ** 3 @ vh ** 3


def outer_of_qr(x, mode="reduced"):
    q, r = torch.linalg.qr(x, mode)
    return (q ** 2) @ (r ** 2) + (q ** 3) @ (r ** 3)


# The case of the same name in tests/core/ops/linalg_test.cc computes the same.
LINALG = {
    "inv": (lambda x: torch.linalg.inv(well_posed(x)), [(2, 3, 3)]),
    "solve": (lambda a, b: torch.linalg.solve(well_posed(a), b), [(3, 3), (3, 2)]),
    "solve of a vector": (lambda a, b: torch.linalg.solve(well_posed(a), b), [(3, 3), (3,)]),
    "solve of vectors": (lambda a, b: torch.linalg.solve(well_posed(a), b), [(2, 3, 3), (2, 3)]),
    "solve with broadcasting": (lambda a, b: torch.linalg.solve(well_posed(a), b), [(2, 1, 3, 3), (4, 3, 2)]),
    "det": (lambda x: torch.linalg.det(uneven(x)), [(2, 3, 3)]),
    "slogdet": (lambda x: torch.linalg.slogdet(-well_posed(x))[1] * torch.linalg.slogdet(-well_posed(x))[0], [(2, 3, 3)]),
    "cholesky": (lambda x: torch.linalg.cholesky(positive(x)), [(2, 3, 3)]),
    "cholesky, upper": (lambda x: torch.linalg.cholesky(positive(x), upper=True), [(3, 3)]),
    "qr": (lambda x: outer_of_qr(uneven(x)), [(2, 4, 3)]),
    "qr of wide matrices": (lambda x: outer_of_qr(uneven(x)), [(2, 4)]),
    "qr, complete": (lambda x: outer_of_qr(uneven(x), "complete"), [(3, 3)]),
    "qr, r": (lambda x: torch.linalg.qr(x.detach(), "r")[1].abs(), [(4, 3)]),
    "svd": (lambda x: outer_of_svd(uneven(x)), [(2, 4, 3)]),
    "svd of wide matrices": (lambda x: outer_of_svd(uneven(x)), [(2, 4)]),
    "svd with full matrices": (lambda x: outer_of_svd(uneven(x), True), [(4, 3)]),
    "svdvals": (lambda x: torch.linalg.svdvals(uneven(x)), [(2, 3, 4)]),
    "vector_norm": (lambda x: torch.linalg.vector_norm(x, 3, (0, 2)), [(2, 3, 2)]),
    "norm": (torch.linalg.norm, [(2, 3, 2)]),
    "norm of a matrix": (lambda x: torch.linalg.norm(uneven(x), 1), [(3, 4)]),
    "norm of vectors": (lambda x: torch.linalg.norm(x, 1, 1), [(3, 4)]),
    "matrix_norm": (lambda x: torch.linalg.matrix_norm(x, dim=(0, 2), keepdim=True), [(3, 2, 4)]),
    **{f"matrix_norm {order}": (lambda x, order=order: torch.linalg.matrix_norm(uneven(x), order if order == "nuc" else float(order), (2, 0)), [(3, 2, 4)])
       for order in ("nuc", "1", "-1", "2", "-2", "inf", "-inf")},
}


def linalg():
    """core/ops/linalg, as composed()."""
    return computed_cases(LINALG)


def ones(*shape):
    return torch.ones(shape, requires_grad=True)


# What the tables of other topics do not have. The case of the same name in tests/core/ops/grad_fn_test.cc computes the same.
GRAD_FN = {
    "add": lambda: ones(2) + ones(2), "add a number": lambda: ones(2) + 1, "sub": lambda: ones(2) - ones(2),
    "sub from a number": lambda: 1 - ones(2), "mul": lambda: ones(2) * ones(2), "mul by a number": lambda: ones(2) * 2,
    "div": lambda: ones(2) / ones(2), "div of a number": lambda: 1 / ones(2), "minimum": lambda: torch.minimum(ones(2), ones(2)),
    "add_": lambda: (ones(2) * 1).add_(ones(2)), "mul_": lambda: (ones(2) * 1).mul_(3), "relu_": lambda: (ones(2) * 1).relu_(),
    "fill_": lambda: (ones(2) * 1).fill_(3), "copy_": lambda: (ones(2) * 1).copy_(ones(2)),
    "view": lambda: ones(2, 3).view(6), "reshape": lambda: ones(2, 3).reshape(3, 2), "reshape of a transpose": lambda: ones(2, 3).t().reshape(6),
    "flatten": lambda: ones(2, 3).flatten(), "transpose": lambda: ones(2, 3).transpose(0, 1), "t": lambda: ones(2, 3).t(),
    "permute": lambda: ones(2, 3).permute(1, 0), "select": lambda: ones(2, 3)[0], "slice": lambda: ones(4)[1:3],
    "narrow": lambda: ones(4).narrow(0, 1, 2), "expand": lambda: ones(1, 3).expand(2, 3), "squeeze": lambda: ones(1, 3).squeeze(),
    "squeeze of a dimension": lambda: ones(1, 3).squeeze(0), "unsqueeze": lambda: ones(3).unsqueeze(0), "first of split": lambda: ones(4).split(2)[0],
    "first of unbind": lambda: ones(4, 2).unbind()[0], "changed view": lambda: changed_view(), "view of changed": lambda: changed_view()[0],
    "clone": lambda: ones(2).clone(), "contiguous": lambda: ones(2, 3).t().contiguous(), "to": lambda: ones(2).to(torch.float64),
    "cat": lambda: torch.cat([ones(2), ones(2)]), "stack": lambda: torch.stack([ones(2), ones(2)]),
    "sum of all": lambda: ones(2, 3).sum(), "sum": lambda: ones(2, 3).sum(1), "mean of all": lambda: ones(2, 3).mean(), "mean": lambda: ones(2, 3).mean(1),
    "prod of all": lambda: ones(2, 3).prod(), "prod": lambda: ones(2, 3).prod(1), "max of all": lambda: ones(2, 3).max(), "max": lambda: ones(2, 3).max(1)[0],
    "min of all": lambda: ones(2, 3).min(), "min": lambda: ones(2, 3).min(1)[0], "amax": lambda: ones(2, 3).amax(1), "amin": lambda: ones(2, 3).amin(1),
    "var": lambda: ones(2, 3).var(), "std": lambda: ones(2, 3).std(1), "norm": lambda: ones(2, 3).norm(), "logsumexp": lambda: ones(2, 3).logsumexp(1),
    "cumsum": lambda: ones(2, 3).cumsum(1), "sort": lambda: ones(3).sort()[0], "topk": lambda: ones(3).topk(2)[0],
    "softmax": lambda: ones(2, 3).softmax(1), "log_softmax": lambda: ones(2, 3).log_softmax(1), "dropout": lambda: F.dropout(ones(4), 0.5),
    "linear": lambda: F.linear(ones(2, 3), ones(4, 3), ones(4)), "linear without bias": lambda: F.linear(ones(2, 3), ones(4, 3)),
    "linear of three dimensions": lambda: F.linear(ones(2, 2, 3), ones(4, 3), ones(4)),
    "linear of three dimensions without bias": lambda: F.linear(ones(2, 2, 3), ones(4, 3)),
    "linear of a vector": lambda: F.linear(ones(3), ones(4, 3), ones(4)), "linear of a vector without bias": lambda: F.linear(ones(3), ones(4, 3)),
    "matmul": lambda: ones(2, 3) @ ones(3, 2), "matmul of vectors": lambda: ones(3) @ ones(3), "matmul with a vector": lambda: ones(2, 3) @ ones(3),
    "matmul of a vector": lambda: ones(3) @ ones(3, 2), "matmul of as many": lambda: ones(2, 2, 3) @ ones(2, 3, 2),
    "conv2d": lambda: F.conv2d(ones(1, 1, 3, 3), ones(1, 1, 2, 2)),
    "conv_transpose2d": lambda: F.conv_transpose2d(ones(1, 1, 3, 3), ones(1, 1, 2, 2)),
    "max_pool2d": lambda: F.max_pool2d(ones(1, 1, 4, 4), 2), "avg_pool2d": lambda: F.avg_pool2d(ones(1, 1, 4, 4), 2),
    "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(ones(1, 1, 4, 4), 2), "upsample_nearest": lambda: F.interpolate(ones(1, 1, 2, 2), size=4),
    "upsample_bilinear": lambda: F.interpolate(ones(1, 1, 2, 2), size=4, mode="bilinear"), "embedding": lambda: F.embedding(i64(1), ones(2, 3)),
    "layer_norm": lambda: F.layer_norm(ones(2, 3), (3,)), "group_norm": lambda: F.group_norm(ones(2, 4, 2), 2), "rms_norm": lambda: F.rms_norm(ones(2, 3), (3,)),
    "batch_norm": lambda: F.batch_norm(ones(2, 3), None, None, training=True),
    "cross_entropy": lambda: F.cross_entropy(ones(2, 3), i64(0, 1)), "cross_entropy of probabilities": lambda: F.cross_entropy(ones(2, 3), torch.ones(2, 3)),
    "nll_loss": lambda: F.nll_loss(ones(2, 3), i64(0, 1)), "mse_loss": lambda: F.mse_loss(ones(2), torch.ones(2)), "l1_loss": lambda: F.l1_loss(ones(2), torch.zeros(2)),
    "l1_loss without reduction": lambda: F.l1_loss(ones(2), torch.zeros(2), reduction="none"), "l1_loss, summed": lambda: F.l1_loss(ones(2), torch.zeros(2), reduction="sum"),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(ones(2), torch.zeros(2)), "huber_loss": lambda: F.huber_loss(ones(2), torch.zeros(2)),
    "binary_cross_entropy": lambda: F.binary_cross_entropy(ones(2).sigmoid(), torch.ones(2)),
    "binary_cross_entropy_with_logits": lambda: F.binary_cross_entropy_with_logits(ones(2), torch.ones(2)),
    "kl_div": lambda: F.kl_div(ones(2, 2), torch.ones(2, 2), reduction="batchmean"), "kl_div, mean": lambda: F.kl_div(ones(2), torch.ones(2), reduction="mean"),
    "kl_div, summed": lambda: F.kl_div(ones(2), torch.ones(2), reduction="sum"), "kl_div without reduction": lambda: F.kl_div(ones(2), torch.ones(2), reduction="none"),
    "cosine_similarity": lambda: F.cosine_similarity(ones(2, 3), ones(2, 3)),
}


def changed_view():
    a = ones(2, 2) * 1
    a[0].mul_(2)
    return a


def grad_fn():
    """The name of each operation's node, as PyTorch prints it."""
    a = {}
    for row in rows():
        y = torch_function(row[1], *(float(x) for x in (row[11:] or ("0", "0"))))(torch.full((2,), 0.5).requires_grad_())
        a[f"elementwise/{row[1]}"] = text(type(y.grad_fn).__name__)
    a["elementwise/hardsigmoid"] = text(type(F.hardsigmoid(ones(2)).grad_fn).__name__)  # not the stand-in of torch_function
    a["elementwise/celu"] = text(type(F.celu(ones(2)).grad_fn).__name__)
    for case, (f, shapes) in COMPOSED.items():
        y = f(*(torch.full(shape, 0.5).requires_grad_() for shape in shapes))
        if y.requires_grad:
            a[f"composed/{case}"] = text(type(y.grad_fn).__name__)
    for case, f in GRAD_FN.items():
        a[f"case/{case}"] = text(type(f().grad_fn).__name__)
    return a


def autograd_graphs():
    """core/autograd: 40 graphs of 12 operations, chosen by a number sequence that tests/core/autograd/grad_parity_test.cc has too, with
    hooks, kept gradients and writes in place, also into views. Arrays GRAPH.grad.I of torch.autograd.grad by every third tensor and the
    leaves, GRAPH.second.I of the gradients by the leaves of the sum of the leaves' squared gradients, GRAPH.leaf.I and GRAPH.kept.I
    after backward()."""
    a = {}
    for graph in range(40):
        state = graph + 1

        def draw(n):
            nonlocal state
            state = (state * 1103515245 + 12345) % (1 << 31)
            return (state >> 8) % n

        leaves = [(torch.arange(1, 7, dtype=torch.float64).reshape(2, 3) * (0.11 + 0.07 * i)).requires_grad_() for i in range(3)]
        made, kept = list(leaves), []
        for step in range(12):
            x, y, op = made[draw(len(made))], made[draw(len(made))], draw(8)
            if op == 0:
                z = x + y * 0.5
            elif op == 1:
                z = x * y
            elif op == 2:
                z = torch.tanh(x)
            elif op == 3:
                z = x - y.mean(1, keepdim=True)
            elif op == 4:
                z = torch.sigmoid(x) * y
            elif op == 5:
                z = x * 1
                z.mul_(y)
            elif op == 6:
                z = x * 1
                z[0].add_(y[1])
            else:
                z = x.t().reshape(2, 3)
            if draw(4) == 0:
                z.register_hook(lambda g: g * 0.5)
            if draw(4) == 0:
                z.retain_grad()
                kept.append(z)
            made.append(z)
        loss = (made[-1] * made[-2] + made[-3]).sum()
        inputs = [made[i] for i in range(3, len(made), 3)] + leaves
        for i, g in enumerate(torch.autograd.grad(loss, inputs, retain_graph=True, allow_unused=True)):
            if g is not None:
                a[f"{graph}.grad.{i}"] = g.clone()
        grads = [g for g in torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True) if g is not None]
        squares = sum((g * g).sum() for g in grads)
        if squares.requires_grad:
            for i, g in enumerate(torch.autograd.grad(squares, leaves, retain_graph=True, allow_unused=True)):
                if g is not None:
                    a[f"{graph}.second.{i}"] = g.clone()
        for z in kept:
            z.grad = None
        loss.backward()
        for i, x in enumerate(leaves):
            if x.grad is not None:
                a[f"{graph}.leaf.{i}"] = x.grad.clone()
        for i, z in enumerate(kept):
            if z.grad is not None:
                a[f"{graph}.kept.{i}"] = z.grad.clone()
    return a


def create_graph():
    """core/autograd: the loss of a critic with a gradient penalty and the gradients of its parameters p0 to p5; the Hessian of a
    classifier's loss times the vectors v0 to v3."""
    F, a = torch.nn.functional, {}

    def draw(name, g, *shape, scale=1.0):
        a[name] = torch.randn(*shape, generator=g, dtype=torch.float64) * scale
        return a[name].clone()

    g = seeded(5)
    shapes = ((4, 1, 3, 3), (4,), (6, 4, 3, 3), (6,), (1, 24), (1,))
    p = [draw(f"penalty.p{i}", g, *shape, scale=0.3).requires_grad_() for i, shape in enumerate(shapes)]
    real, fake = draw("penalty.real", g, 3, 1, 8, 8), draw("penalty.fake", g, 3, 1, 8, 8)

    def critic(images):
        h = F.leaky_relu(F.conv2d(images, p[0], p[1], stride=2, padding=1), 0.2)
        h = F.leaky_relu(F.conv2d(h, p[2], p[3], stride=2, padding=1), 0.2)
        return F.linear(h.flatten(1), p[4], p[5])

    mixed = torch.lerp(real, fake, 0.3).requires_grad_()
    slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
    penalty = ((slope.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    loss.backward()
    a["penalty.penalty"], a["penalty.loss"] = penalty.detach(), loss.detach()
    for i, each in enumerate(p):
        a[f"penalty.g{i}"] = each.grad.clone() if each.grad is not None else torch.zeros_like(each)

    shapes = ((5, 4), (5,), (3, 5), (3,))
    p = [draw(f"hessian.p{i}", g, *shape).requires_grad_() for i, shape in enumerate(shapes)]
    v = [draw(f"hessian.v{i}", g, *shape) for i, shape in enumerate(shapes)]
    x = draw("hessian.x", g, 6, 4)
    h = F.softplus(torch.tanh(F.linear(x, p[0], p[1])))
    loss = F.cross_entropy(F.linear(h, p[2], p[3]), torch.tensor([0, 2, 1, 1, 0, 2]))
    grads = torch.autograd.grad(loss, p, create_graph=True)
    products = torch.autograd.grad(sum((each * along).sum() for each, along in zip(grads, v)), p)
    for i, each in enumerate(products):
        a[f"hessian.hv{i}"] = each
    return a


def tokens():
    """nn/text: a byte-level vocabulary trained by Hugging Face's tokenizers 0.23, and what it makes of texts."""
    import tokenizers

    def bytes_of(text):
        return torch.frombuffer(bytearray(text.encode() or b"\0"), dtype=torch.uint8)

    a = {}
    sentences = [
        "The ranks of a job start together, and they all end together; it's what they're for.",
        "We'll see 1234567 tensors, I'd say: don't we've 3.14 of them?  Two  spaces,   three.",
        "Größe, naïve, Ελληνικά, русский текст, 日本語のテキスト, עברית, ½ ² Ⅷ ٣.",
        "for (int i = 0; i < n; ++i) {\n\treturn x[i] * 2.5e-3;\n}\n\n",
    ]
    model = tokenizers.ByteLevelBPETokenizer()
    model.train_from_iterator(sentences * 3, vocab_size=420, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False)
    saved = json.loads(model.to_str())["model"]
    vocab = dict(sorted(saved["vocab"].items(), key=lambda item: item[1]))
    a["vocab"] = bytes_of(json.dumps(vocab, ensure_ascii=False))
    a["merges"] = bytes_of("#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in saved["merges"]))
    texts = sentences + [
        " leading", "trailing ", "   ", "\n\n\n", "a\r\nb\r\n  c", "'s's 'S '", "x\u00a0y\u2003 z\u3000", "\u0085\u2028 a\x1c b",
        "a<|endoftext|>b<|endoftext|><|endoftext|>", "<|endoftext", "e\u0301\u200d\U0001f469\u200d\U0001f680", "zzzzzzzzzzz" * 9, "\0\x01\x7f"]
    pool = list("aetoi  \n\t'.,19sdlr") + list("éΩж中٣½\u00a0\u3000\u200b\U0001d7d8\U0001f600") + ["the", " ranks", "'re"]
    g = np.random.default_rng(123)
    texts += ["".join(g.choice(pool, g.integers(1, 25))) for _ in range(120)]
    for i, text in enumerate(texts):
        a[f"text.{i}"] = bytes_of(text)
        a[f"tokens.{i}"] = torch.tensor(model.encode(text).ids)
    return a


def pruning():
    """nn/utils/prune: masks, with many equal magnitudes, as uint8; after manual_seed(123) where they are random."""
    from torch.nn.utils import prune
    g = seeded(7)
    # Tenths, so that many magnitudes are equal.
    small = torch.randint(-15, 16, (8, 6, 3, 3), generator=g) / 10
    wide = torch.randint(-4, 5, (20, 50), generator=g) / 4
    a = {"small": (small * 10).to(torch.int8), "wide": (wide * 4).to(torch.int8)}
    scores = torch.randint(0, 5, small.shape, generator=g) / 8
    a["scores"] = (scores * 8).to(torch.int8)
    given = torch.randint(0, 2, small.shape, generator=g).to(torch.uint8)
    a["given"] = given

    def of(values):
        module = nn.Module()
        module.weight = nn.Parameter(values.clone())
        return module

    def add(name, values, *calls):
        module = of(values)
        torch.manual_seed(123)
        for function, keywords in calls:
            function(module, "weight", **keywords)
        a[name] = module.weight_mask.to(torch.uint8)

    l1, some = prune.l1_unstructured, prune.random_unstructured
    ln, rows = prune.ln_structured, prune.random_structured
    add("l1_share", small, (l1, {"amount": 0.3}))
    add("l1_count", small, (l1, {"amount": 7}))
    add("l1_none", small, (l1, {"amount": 0}))
    add("l1_few_of_many", wide, (l1, {"amount": 15}))
    add("l1_half_up", wide[0, :5], (l1, {"amount": 0.5}))
    add("l1_equal", torch.ones(200), (l1, {"amount": 0.4}))
    add("l1_thrice", small, *[(l1, {"amount": 0.2})] * 3)
    add("l1_scores", small, (l1, {"amount": 0.5, "importance_scores": scores}))
    add("random_share", small, (some, {"amount": 0.4}))
    add("random_twice", wide, (some, {"amount": 0.4}), (some, {"amount": 33}))
    for n in (1, 2, 0.5, math.inf):
        for dim in (0, 1, -1):
            add(f"ln_{n}_{dim}", small, (ln, {"amount": 0.4, "n": n, "dim": dim}))
    add("ln_twice", small, (ln, {"amount": 3, "n": 2, "dim": 0}), (ln, {"amount": 0.5, "n": 1, "dim": 0}))
    add("ln_both", small, (ln, {"amount": 3, "n": 2, "dim": 0}), (ln, {"amount": 0.5, "n": 1, "dim": 1}))
    add("ln_scores", small, (ln, {"amount": 0.5, "n": 1, "dim": 1, "importance_scores": scores}))
    add("ln_equal", torch.ones(40, 3), (ln, {"amount": 0.3, "n": 2, "dim": 0}))
    add("rows_twice", wide, (rows, {"amount": 0.3, "dim": 0}), (rows, {"amount": 4, "dim": 0}))
    add("rows_none", wide, (rows, {"amount": 0, "dim": 1}), (rows, {"amount": 0.25, "dim": 1}))
    add("mixed", small, (ln, {"amount": 0.25, "n": 2, "dim": 0}), (l1, {"amount": 0.25}), (some, {"amount": 20}),
        (prune.custom_from_mask, {"mask": given}), (prune.identity, {}))
    for method in (prune.L1Unstructured, prune.RandomUnstructured):
        first, second = of(small), of(wide)
        torch.manual_seed(123)
        l1(second, "weight", amount=0.1)
        prune.global_unstructured([(first, "weight"), (second, "weight")], method, amount=0.35)
        for i, module in enumerate((first, second)):
            a[f"{method.__name__}_{i}"] = module.weight_mask.to(torch.uint8)
    # Training goes on with the masks.
    torch.manual_seed(123)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    l1(model[0], "weight", amount=0.4)
    ln(model[2], "weight", amount=2, n=1, dim=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    x, y = torch.rand(8, 6), torch.arange(8) % 3
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    a["losses"] = torch.stack(losses)
    a["trained_0"], a["trained_2"] = model[0].weight_orig.detach().clone(), model[2].weight_orig.detach().clone()
    return a


def generate():
    """nn/models/sequence/generate: the logits that transformers' warpers leave, by their formulas."""
    a = {}
    logits = torch.randn(4, 50, generator=seeded(123)) * 3
    logits[1, :10] = 2.5  # equal ones, at the limit too
    a["logits"] = logits

    def top_k(x, k):
        return x.masked_fill(x < x.topk(k).values[:, -1:], -math.inf)

    def top_p(x, p):
        values, places = x.sort(descending=False, stable=True)
        gone = values.softmax(-1).cumsum(-1) <= 1 - p
        gone[:, -1:] = False
        return x.masked_fill(gone.scatter(1, places, gone), -math.inf)

    a["temperature"] = logits / 0.7
    a["top_k"] = top_k(logits, 5)
    a["top_p"] = top_p(logits, 0.6)
    a["tiny_top_p"] = top_p(logits, 1e-6)
    a["all"] = top_p(top_k(logits / 1.5, 20), 0.8)
    return a


def named_weights():
    """nn/models/weights: small networks of timm and transformers, with their names, an input and their outputs."""
    import timm
    from transformers import ViTConfig, ViTForImageClassification

    a = {}
    torch.manual_seed(123)
    a["image"] = torch.randn(2, 3, 16, 16)
    tiny = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=16, patch_size=8)
    networks = {
        "timm_vit": timm.models.VisionTransformer(16, 8, embed_dim=16, depth=2, num_heads=2, mlp_ratio=1.5, num_classes=5),
        "hf_vit": ViTForImageClassification(ViTConfig(num_labels=5, **tiny)),
    }
    for name, model in networks.items():
        with torch.no_grad():
            for parameter in model.eval().parameters():
                parameter.normal_(0, 0.3)
            output = model(a["image"])
        a[f"{name}_output"] = getattr(output, "logits", output)
        a.update({f"{name}/{key}": value for key, value in model.state_dict().items()})
    return a


TOPICS = {f.__name__: f for f in (random, autograd_graphs, samplers, npy, pictures, resize, transforms, clip, dtypes, modules, networks, transformers, mobile_networks, vision_transformer, gpt2, lstm_language_model, optim, schedulers, training, train_cnn, train_gpt, elementwise, losses, ctc, linear_cross_entropy, norms, layers, rnn, tokens, generate, reductions, order, composed, grad_fn, inits, memory_order, pruning, colors, linalg, create_graph, named_weights)}


def main():
    for topic in sys.argv[1:] or TOPICS:
        arrays = {name: tensor.contiguous() for name, tensor in TOPICS[topic]().items()}
        save_file(arrays, ARRAYS / f"{topic}.safetensors", metadata={"made_by": "tests/parity/make_arrays.py"})
        print(f"{topic}: {len(arrays)} arrays, {sum(t.nbytes for t in arrays.values())} bytes")


if __name__ == "__main__":
    main()
