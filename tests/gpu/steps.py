"""The parts of figures.py that time training steps, ours and a peer's, in the same run, and say where ours go."""
import contextlib
import csv
import glob
import shlex
import shutil

WORKS = [("cnn", 64), ("cnn", 1024), ("mlp", 8), ("conv18", 256)]
ARITHMETIC = [("f32", ["--dtype", "f32", "--matmul", "ieee", "--conv", "ieee"]), ("tf32", ["--dtype", "f32", "--matmul", "tf32", "--conv", "tf32"]),
              ("bf16", ["--dtype", "bf16"])]
PER_SYNC = [("latency", 1), ("throughput", 50)]
METRICS = {"ns": "gpu__time_duration.sum", "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
           "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed"}
STEPS_UNDER_NCU = 8
COMPILED = ["reduce-overhead", "compile", "max-autotune"]


def rows(a, profiled=False):
    """(name, flags) in order of importance."""
    on_gpu = a.device != "cpu"
    for sync, per_sync in PER_SYNC if on_gpu else PER_SYNC[:1]:
        for work, batch in WORKS if not a.quick else [("mlp", 8), ("cnn", 64)]:
            for arithmetic, flags in ARITHMETIC if on_gpu else ARITHMETIC[:1]:
                name = f"{work}-{batch} {arithmetic} {sync}"
                if a.rows not in name:
                    continue
                steps, warmup = ("3", "3") if a.quick else ("100" if per_sync == 1 else "10", "20")
                if profiled:
                    steps, warmup = "1", str(STEPS_UNDER_NCU - 1)
                # cuDNN's trials would be among the kernels of a profile.
                device = ["--device", a.device, *flags, "--per-sync", str(per_sync), *([] if profiled else ["--benchmark"])] if on_gpu else []
                yield name, [work, "--batch", str(batch), "--steps", steps, "--warmup", warmup, *device, "--json"]


def time_one(s, part, row, program, command, limit):
    done = s.run(command, limit)
    if done is None:
        return s.note(part, row, "late", program=program)
    found = [each for each in done.objects if "median_ms" in each]
    if done.code == 0 and found:
        r = found[-1]
        return s.note(part, row, "ok", program=program, median_ms=r["median_ms"], p10_ms=r["p10_ms"], p90_ms=r["p90_ms"],
                      peak_mib=r["peak_mib"], command=shlex.join(command))
    lacks = "invalid choice" in done.err
    return s.note(part, row, "skipped" if lacks else "failed", program=program, why="it has no such network" if lacks else done.why(),
                  command=shlex.join(command))


def bench(s, a):
    ours = [("ours eager", ["--mode", "eager"])] + ([("ours captured", ["--mode", "captured"])] if a.device != "cpu" else [])
    for row, flags in rows(a):
        for _ in range(a.rounds):
            for program, more in ours:
                time_one(s, "bench", row, program, [str(a.bin / "bench_train"), *flags, *more], 60)
            if a.peer:
                time_one(s, "bench", row, "peer eager", [*shlex.split(a.peer), *flags], 90)
                if not row.startswith("mlp"):
                    time_one(s, "bench", row, "peer channels-last", [*shlex.split(a.peer), *flags, "--channels-last"], 90)


def compiled(s, a):
    if not a.peer:
        return s.note("compile", "all", "skipped", why="--peer names no program")
    for mode in COMPILED[:1] if a.quick else COMPILED:
        for row, flags in rows(a):
            time_one(s, "compile", row, f"peer {mode}", [*shlex.split(a.peer), *flags, "--mode", mode], 150)
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
        if step is None or done is None:
            s.note("profile", row, "late")
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

