"""The parts of figures.py that train: networks in every arithmetic, one network to its accuracy, and ranks that share a GPU."""
import math
import os
import pathlib
import random
import struct
import tempfile

from steps import ARITHMETIC

SHARED = {"DLRUN_NCCL_SHARED_GPU": "1"}
# With samples a step. The first has no normalisation over samples, so that it agrees most closely.
NETWORKS = [("cnn", 16), ("resnet18", 8), ("densenet121", 8), ("efficientnet-b0", 8), ("gpt", 2)]
# How far the first loss may be from the CPU's in f32, of 1 + that. Later ones differ by what training makes of it.
TOLERANCE = {"f32": 1e-3, "tf32": 1e-2, "f16": 1e-2, "bf16": 5e-2}


def at_once(a):
    """Programs whose times do not matter share the GPU."""
    return 1 if a.device == "cpu" else max(1, min(4, len(os.sched_getaffinity(0)) // 4))


def few_threads(a):
    return {"OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // at_once(a)))}


# ---- networks -----------------------------------------------------------------------------------------------------------


def networks(s, a):
    """Losses of the first steps against the CPU's in f32."""
    nets = [("cnn", 2)] if a.quick else NETWORKS
    on_cpu = {}
    commands = [[str(a.bin / "bench_train"), work, "--batch", str(batch), "--losses", "--steps", "3", "--json"] for work, batch in nets]
    for index, done in s.run_all(commands, 60, few_threads(a), at_once(a)):
        work = nets[index][0]
        losses = losses_of(done)
        if losses:
            on_cpu[work] = losses
        s.note("networks", f"{work} cpu", status_of(done, losses), losses=losses, seconds=done.seconds, command=commands[index],
               **({} if losses else {"why": done.why()}))
    if a.device == "cpu":
        return
    # What differs most from one another first: the kernels, then captures in short dtypes.
    ways = [("f32", "eager"), ("bf16", "captured"), ("f16", "captured"), ("tf32", "captured"), ("f32", "captured"), ("bf16", "eager"), ("f16", "eager"),
            ("tf32", "eager")]
    cases = [(work, batch, arithmetic, mode) for arithmetic, mode in (ways[:4] if a.quick else ways) for work, batch in nets]
    commands = [[str(a.bin / "bench_train"), work, "--batch", str(batch), "--losses", "--steps", "3" if a.quick else "12", "--device", a.device,
                 *ARITHMETIC[arithmetic], "--mode", mode, "--json"] for work, batch, arithmetic, mode in cases]
    for index, done in s.run_all(commands, 60, few_threads(a), at_once(a)):
        work, _, arithmetic, mode = cases[index]
        weigh(s, f"{work} {arithmetic} {mode}", arithmetic, done, on_cpu.get(work), commands[index], a.quick)


def weigh(s, name, arithmetic, done, wanted, command, quick):
    losses = losses_of(done)
    if not losses:
        return s.note("networks", name, status_of(done, losses), why=done.why(), command=command)
    wrong = None
    if not all(map(math.isfinite, losses)):
        wrong = "a loss is not finite"
    elif wanted is None:
        wrong = "there are no losses of the CPU"
    elif abs(losses[0] - wanted[0]) > TOLERANCE[arithmetic] * (1 + wanted[0]):
        wrong = f"the first loss is {losses[0]:.5g}, the CPU's {wanted[0]:.5g}"
    elif arithmetic == "f32" and worst_difference(losses[:3], wanted) > 5e-2:
        wrong = f"the losses are {losses[:3]}, the CPU's {wanted}"
    elif not quick and min(losses) >= losses[0]:  # a few steps of f16 only find the scale of its gradients
        wrong = "no loss is less than the first"
    figures = {} if wanted is None else {"first_loss_off": abs(losses[0] - wanted[0]), "worst_of_3": worst_difference(losses[:3], wanted)}
    return s.note("networks", name, "failed" if wrong else "ok", **figures, last_loss=losses[-1], losses=losses, seconds=done.seconds, command=command,
                  **({"why": wrong} if wrong else {}))


def losses_of(done):
    found = done.objects[-1] if done.code == 0 and done.objects else {}
    return found.get("losses")


def status_of(done, found):
    return "ok" if found else "late" if done.late else "failed"


def worst_difference(a, b):
    return max((abs(x - y) / max(abs(y), 1e-3) for x, y in zip(a, b)), default=float("inf"))


# ---- train_cnn ----------------------------------------------------------------------------------------------------------


def made_up_images(folder, train=64, test=32):
    """A set in MNIST's form, for a try of the program itself: of each class, a row of the image is bright."""
    drawn = random.Random(1)
    for split, many in (("train", train), ("t10k", test)):
        labels = bytes(i % 10 for i in range(many))
        pixels = b"".join(bytes((200 if row // 2 == label else 0) + drawn.randrange(50) for row in range(28) for _ in range(28)) for label in labels)
        pathlib.Path(folder, f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, many, 28, 28) + pixels)
        pathlib.Path(folder, f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, many) + labels)
    return ["--dataset", "mnist", "--data-dir", folder, "--epochs", "1"]


class Learner:
    """train_cnn, with what it learns from."""

    def __init__(self, s, a, part, folder):
        self.s, self.a, self.part = s, a, part
        self.common = [str(a.bin / "train_cnn"), "--json", *(made_up_images(folder) if a.quick else ["--epochs", "15"])]

    def command(self, flags, ranks=1):
        command = [*self.common, *flags]
        return [str(self.a.bin / "dlrun"), "--nproc-per-node", str(ranks), *command] if ranks > 1 else command

    def read(self, name, done, command):
        """(losses, the program's last object); None if it failed, which is noted."""
        last = done.objects[-1] if done.objects else {}
        if done.code != 0 or "test_accuracy" not in last:
            return self.s.note(self.part, name, "late" if done.late else "failed", why=done.why(), command=command)
        return [each["loss"] for each in done.objects if "loss" in each], last


def train(s, a):
    ways = [("cpu", ["--device", "cpu"]), (a.device, []), (f"{a.device} captured bf16", ["--compile", "--amp", "bf16"]),
            (f"{a.device} f16", ["--amp", "f16"]), (f"{a.device} captured", ["--compile"]), (f"{a.device} bf16", ["--amp", "bf16"])]
    if a.device == "cpu":
        ways = [(name, flags) for name, flags in ways[1:] if "--compile" not in flags and "f16" not in flags]
    elif a.quick:
        ways = ways[:3]
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner(s, a, "train", folder)
        commands = [learner.command([*flags, *([] if "--device" in flags else ["--device", a.device])]) for _, flags in ways]
        first = {}  # of ways that ended before the CPU's
        wanted = None
        for index, done in s.run_all(commands, 150, few_threads(a), at_once(a)):
            first[index] = done
            if 0 not in first:
                continue
            if wanted is None:
                got = learner.read(ways[0][0], first[0], commands[0])
                wanted = got[1]["test_accuracy"] if got else -1.0
            for each, ended in sorted(first.items()):
                if ended is not None and (each > 0 or wanted >= 0):
                    judge(learner, *ways[each], ended, commands[each], wanted)
                first[each] = None


def judge(learner, name, flags, done, command, wanted):
    s, a = learner.s, learner.a
    got = learner.read(name, done, command)
    if got is None:
        return
    losses, last = got
    # 360 test images: a point is three or four of them. This rate is near the largest that trains, so rounding decides the first
    # steps, and other seeds have another say. The few images of a quick try say nothing.
    enough = -1.0 if a.quick else wanted - 0.015
    tried = [last["test_accuracy"]]
    while sorted(tried)[len(tried) // 2] < enough and len(tried) < 3:
        again = [*command, "--seed", str(len(tried))]
        other = learner.read(f"{name}, seed {len(tried)}", s.run(again, 150), again)
        if other is None:
            break
        tried.append(other[1]["test_accuracy"])
    accuracy = sorted(tried)[len(tried) // 2]
    fell_back = "steps are not captured" in done.out + done.err
    why = "the step was not captured" if fell_back else None if accuracy >= enough else "less than on the CPU"
    s.note("train", name, "failed" if why else "ok", accuracy=accuracy, cpu_accuracy=wanted if wanted >= 0 else None, last_loss=losses[-1],
           samples_per_s=last["samples_per_s"], seconds=done.seconds, command=command, losses=losses[:20],
           accuracies=" ".join(f"{each:.3f}" for each in tried), **({"why": why} if why else {}))


# ---- ranks --------------------------------------------------------------------------------------------------------------


def ranks(s, a):
    numbers = [int(text) for text in a.ranks.split(",")]
    several = [number for number in numbers if number > 1]
    ways = [("NCCL", SHARED), ("through the host", {})] if a.device != "cpu" else [("cpu", {})]
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner(s, a, "ranks", folder)
        for way, environment in ways[:1] if a.quick else ways:
            losses = {}  # of the first number, by name of the way
            for number in numbers:
                learn_on(learner, number, way, environment, losses)
                if number in several and way != "through the host":
                    collectives(s, a, number)


def learn_on(learner, number, way, environment, wanted):
    name = f"{number} ranks, {way}"
    command = learner.command(["--device", learner.a.device, "--batch-size", str(32 // number)], number)
    done = learner.s.run(command, 150, environment)
    got = learner.read(name, done, command)
    if got is None:
        return
    losses, last = got
    # The first steps differ by rounding only; later ones by what rounding grows to.
    off = worst_difference(losses[:10], wanted.setdefault(way, losses)[:10])
    learner.s.note("ranks", name, "ok" if off < 1e-2 else "failed", worst_difference_of_10_losses=off, accuracy=last["test_accuracy"],
                   seconds=done.seconds, command=command, losses=losses[:10], **({} if off < 1e-2 else {"why": "other losses than those of fewer ranks"}))


def collectives(s, a, number):
    names = ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "gather", "scatter", "all_to_all", "sendrecv"]
    cases = [(name, ["-b", "8", "-e", "4M", "-f", "512"]) for name in names]
    cases[1:1] = [("all_reduce", ["-b", "4K", "-e", "4K", "-d", "all", "-o", "all"])]
    for name, sizes in [(name, ["-b", "8", "-e", "4K", "-f", "512"]) for name in names[:2]] if a.quick else cases:
        environment = SHARED if a.device != "cpu" else {}
        command = [str(a.bin / "dlrun"), "--nproc-per-node", str(number), str(a.bin / "dlbench"), name, *sizes, "-n", "5", "-w", "1",
                   "--device", a.device, "-T", "60", "--json"]
        done = s.run(command, 90, environment)
        label = f"{name} {' '.join(sizes)}, {number} ranks"
        rows = [each for each in done.objects if "wrong" in each]
        backends = sorted({each["backend"] for each in rows})
        wrong = sum(each["wrong"] for each in rows)
        right = done.code == 0 and rows and wrong == 0 and (a.device == "cpu" or backends == ["nccl"])
        s.note("ranks", label, "ok" if right else "late" if done.late and wrong == 0 else "failed", rows=rows, sizes_and_places=len(rows), wrong=wrong,
               over=" ".join(backends), seconds=done.seconds, command=command, **({} if right else {"why": done.why()}))
