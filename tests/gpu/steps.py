"""The parts of figures.py that time training steps, ours and a peer's, in the same run, and say where ours go."""
import contextlib
import csv
import glob
import itertools
import shlex
import shutil

WORKS = [("cnn", 64), ("resnet18", 128), ("mlp", 8), ("cnn", 1024), ("densenet121", 32), ("efficientnet-b0", 32), ("conv18", 256)]
QUICK_WORKS = [("mlp", 8), ("cnn", 2)]
ARITHMETIC = {"f32": ["--dtype", "f32", "--matmul", "ieee", "--conv", "ieee"], "tf32": ["--dtype", "f32", "--matmul", "tf32", "--conv", "tf32"],
              "bf16": ["--dtype", "bf16"], "f16": ["--dtype", "f16"]}
TIMED = ["f32", "tf32", "bf16"]
PER_SYNC = [("latency", 1), ("throughput", 50)]
METRICS = {"ns": "gpu__time_duration.sum", "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
           "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed"}
STEPS_UNDER_NCU = 8
COMPILED = ["reduce-overhead", "compile", "max-autotune"]


def rows(a, profiled=False):
    """(name, flags) in order of importance."""
    on_gpu = a.device != "cpu"
    for sync, per_sync in PER_SYNC if on_gpu and not a.quick else PER_SYNC[:1]:
        for work, batch in QUICK_WORKS if a.quick else WORKS:
            for arithmetic in TIMED if on_gpu else TIMED[:1]:
                name = f"{work}-{batch} {arithmetic} {sync}"
                if a.rows not in name:
                    continue
                steps, warmup = ("3", "3") if a.quick else ("100" if per_sync == 1 else "10", "20")
                if profiled:
                    steps, warmup = "1", str(STEPS_UNDER_NCU - 1)
                # cuDNN's trials would be among the kernels of a profile.
                device = ["--device", a.device, *ARITHMETIC[arithmetic], "--per-sync", str(per_sync), *([] if profiled else ["--benchmark"])] if on_gpu else []
                yield name, [work, "--batch", str(batch), "--steps", steps, "--warmup", warmup, *device, "--json"]


def note_time(s, part, row, program, found, done, command):
    if found and "median_ms" in found:
        figures = {key: found[key] for key in ("median_ms", "p10_ms", "p90_ms", "peak_mib")}
        return s.note(part, row, "ok", program=program, **figures, command=shlex.join(command))
    if done.late:
        return s.note(part, row, "late", program=program, why=done.why())
    lacks = "invalid choice" in done.err
    why = "it has no such network" if lacks else found["error"] if found and "error" in found else done.why()
    if done.code == 0 and not found:
        why = f"it printed no times; {why}"
    return s.note(part, row, "skipped" if lacks else "failed", program=program, why=why, command=shlex.join(command))


class Peer:
    """Another training program, for the rows of one part. After a call that did not end it is called no more."""

    def __init__(self, s, a, part):
        self.s, self.part, self.hung = s, part, False
        # torch_steps.py takes several rows a call; others need not.
        self.command, self.several = (shlex.split(a.peer), False) if a.peer else (a.found.get("torch"), True)

    def time(self, program, named, more, limit):
        """`named`: rows. The time of a call is this, and a half more for each further row."""
        if self.hung:
            for row, _ in named:
                self.s.note(self.part, row, "skipped", program=program, why="a call before it did not end")
        elif self.several:
            self.call(program, named, more, limit * (1 + len(named)) / 2)
        else:
            for each in named:
                self.call(program, [each], more, limit)

    def call(self, program, named, more, limit):
        commands = [[*flags, *more] for _, flags in named]
        together = [word for flags in commands for word in (":", *flags)][1:]
        done = self.s.run([*self.command, *together], limit)
        self.hung = self.hung or done.timed_out
        found = {each.get("row", 0): each for each in done.objects if "median_ms" in each or "error" in each}
        for index, ((row, _), flags) in enumerate(zip(named, commands)):
            note_time(self.s, self.part, row, program, found.get(index), done, [*self.command, *flags])


def no_peer(s, a, part):
    s.note(part, "the peer", "skipped", why=a.found.get("no torch", "--peer names no program"))


def bench(s, a):
    ours = [("ours eager", ["--mode", "eager"])] + ([("ours captured", ["--mode", "captured"])] if a.device != "cpu" else [])
    peer = Peer(s, a, "bench")
    if not peer.command:
        no_peer(s, a, "bench")
    # A network's rows of ours, then the peer's: when time ends, what was measured has its other side.
    for _, group in itertools.groupby(rows(a), key=lambda row: (row[1][:3], row[0].split()[-1])):
        named = list(group)
        for _ in range(a.rounds):
            for row, flags in named:
                for program, more in ours:
                    command = [str(a.bin / "bench_train"), *flags, *more]
                    done = s.run(command, 60)
                    note_time(s, "bench", row, program, next((r for r in done.objects if done.code == 0 and "median_ms" in r), None), done, command)
            if peer.command:
                peer.time("peer eager", named, [], 60)
                if named[0][1][0] != "mlp":
                    peer.time("peer channels-last", named, ["--channels-last"], 60)


def compiled(s, a):
    peer = Peer(s, a, "compile")
    if not peer.command:
        return no_peer(s, a, "compile")
    for mode in COMPILED[:1] if a.quick else COMPILED:
        for each in rows(a):
            peer.time(f"peer {mode}", [each], ["--mode", mode], 150)
    return None


def kernels_in(text):
    """What `ncu --csv --page raw` printed: a dict a kernel."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        return []
    found = list(csv.DictReader(lines[first:]))[1:]  # the first row has the units
    kernels = []
    for each in found:
        with contextlib.suppress(ValueError, KeyError):  # a metric that this device has not
            kernels.append({"name": each["Kernel Name"], **{key: float(each[metric].replace(",", "")) for key, metric in METRICS.items()}})
    return kernels


def profile(s, a):
    """Kernels of one step by ncu, against the step's own time: what limits it, and its share of the device's peak."""
    tool = shutil.which("ncu") or next(iter(glob.glob("/usr/local/cuda*/bin/ncu")), None)
    if tool is None or a.device == "cpu":
        return s.note("profile", "all", "skipped", why="there is no ncu here" if tool is None else "for GPUs")
    for (row, flags), (_, few) in zip(rows(a), rows(a, profiled=True)):
        if not row.endswith("latency"):
            continue
        step = s.run([str(a.bin / "bench_train"), *flags], 60)
        command = [tool, "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS.values()),
                   str(a.bin / "bench_train"), *few]
        done = s.run(command, 150)
        if step.late or done.late:
            s.note("profile", row, "late", why="no time was left")
            continue
        every = kernels_in(done.out)
        kernels = every[-(len(every) // STEPS_UNDER_NCU):] if len(every) >= STEPS_UNDER_NCU else []
        if not kernels or not step.objects:
            s.note("profile", row, "failed", why=done.why(), command=shlex.join(command))
            continue
        total = sum(k["ns"] for k in kernels)
        step_ms = step.objects[-1]["median_ms"]
        share = {key: sum(k[key] * k["ns"] for k in kernels) / total for key in ("dram", "sm")}
        busy = total / 1e6 / step_ms
        limit = "launching" if busy < 0.7 else "memory" if share["dram"] > share["sm"] else "computing"
        by_name = {}
        for k in kernels:
            by_name[k["name"]] = by_name.get(k["name"], 0) + k["ns"]
        longest = [f"{100 * ns / total:.0f} % {name[:60]}" for name, ns in sorted(by_name.items(), key=lambda item: -item[1])[:3]]
        s.note("profile", row, "ok", limited_by=limit, kernels=len(kernels), kernels_ms=total / 1e6, step_ms=step_ms, percent_of_memory_peak=share["dram"],
               percent_of_compute_peak=share["sm"], longest="; ".join(longest), command=shlex.join(command))
    return None
