"""The parts of figures.py that say whether dlrun is right on a GPU. Each takes the session and the options."""
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from runner import end_group

SHARED = {"DLRUN_NCCL_SHARED_GPU": "1"}


def gpus():
    """A dict a GPU, by nvidia-smi; none where there is no such program."""
    keys = ("name", "driver_version", "memory.total", "compute_cap")
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [dict(zip(keys, (field.strip() for field in line.split(",")))) for line in done.stdout.splitlines() if done.returncode == 0]


def folders_of_python():
    """Where this Python's packages keep NVIDIA's libraries."""
    return sorted(folder for path in sys.path for folder in glob.glob(os.path.join(path, "nvidia", "*", "lib")))


def opens_device(s, a, environment=None):
    return s.run([str(a.bin / "train_cnn"), "--device", a.device, "--epochs", "0"], 120, environment)


def find_libraries(s, a):
    """Once for all parts: where dlrun does not find CUDA's libraries by itself, they are named to it, and that is said."""
    if a.device == "cpu":
        return
    done = opens_device(s, a)
    if done and done.code == 0:
        return
    folders = ":".join(folders_of_python() + [os.environ.get("LD_LIBRARY_PATH", "")]).strip(":")
    again = opens_device(s, a, {"LD_LIBRARY_PATH": folders})
    if again and again.code == 0:
        os.environ["LD_LIBRARY_PATH"] = folders
    s.note("machine", "CUDA's libraries are found without help", "failed", why=done.why() if done else "no time",
           with_help="found" if again and again.code == 0 else again.why() if again else "no time")


def machine(s, a):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU")
    s.note("machine", "host", "ok", cpu=cpu, cpus=len(os.sched_getaffinity(0)), kernel=os.uname().release, python=sys.version.split()[0])
    for i, gpu in enumerate(gpus()):
        s.note("machine", f"GPU {i}", "ok", **{key.replace("name", "model"): value for key, value in gpu.items()})
    done = opens_device(s, a)
    if done is None:
        return s.note("machine", f"a first network on {a.device}", "late")
    s.note("machine", f"a first network on {a.device}", "ok" if done.code == 0 else "failed", seconds=done.seconds,
           **({} if done.code == 0 else {"why": done.why()}))


# ---- test programs ----------------------------------------------------------------------------------------------------


def test_environment(a):
    return {"DLRUN_TEST_BIN": str(a.bin), "DLRUN_TEST_SOURCE": str(a.data / "share/dlrun" if (a.data / "share/dlrun").exists() else a.data)}


def programs(a):
    known = re.compile("cuda|nccl|gpu")
    return sorted(path for path in a.tests.glob("*") if known.search(path.name) and path.is_file() and os.access(path, os.X_OK))


def gtest_counts(text):
    """{status: [names]} of what a GoogleTest program printed, also of one that was cut off."""
    marks = {"ok": "       OK ", "failed": "  FAILED  ", "skipped": "  SKIPPED ", "begun": " RUN      "}
    found = {status: re.findall(rf"^\[{re.escape(mark)}\] ([\w/.]+)(?:, where|$| \()", text, re.M) for status, mark in marks.items()}
    ended = set(found["ok"]) | set(found["failed"]) | set(found["skipped"])
    found["unfinished"] = [name for name in found.pop("begun") if name not in ended]
    return {status: list(dict.fromkeys(names)) for status, names in found.items()}


def ops(s, a):
    if not programs(a):
        return s.note("ops", "test programs", "skipped", why=f"none in {a.tests}; make the bundle with --tests")
    for program in programs(a):
        first = s.run([str(program)], 240, test_environment(a))
        if first is None:
            s.note("ops", program.name, "late")
            continue
        counts = gtest_counts(first.out)
        bad = counts["failed"] + counts["unfinished"]
        # A kernel that fails takes its process with it: what came after it says nothing.
        alone = {}
        for name in bad[:40]:
            done = s.run([str(program), f"--gtest_filter={name}"], 60, test_environment(a))
            alone[name] = "late" if done is None else "passed" if done.code == 0 else done.why()
        broken = {name: what for name, what in alone.items() if what not in ("passed", "late")}
        # If train_cnn sees a device, tests that see none are wrong.
        right = first.code == 0 and not broken and (counts["ok"] or a.device == "cpu")
        s.note("ops", program.name, "ok" if right else "failed", passed=len(counts["ok"]), failed=len(broken) + len(bad[40:]),
               only_after_others=sum(what == "passed" for what in alone.values()), skipped=len(counts["skipped"]), seconds=first.seconds,
               **({} if right else {"why": "; ".join(f"{name}: {what}" for name, what in list(broken.items())[:10]) or first.why()}))


def sanitizer(s, a):
    tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    program = a.tests / "cuda_ops_test"
    if tool is None or not program.exists():
        return s.note("sanitizer", "all", "skipped", why="there is no compute-sanitizer here" if tool is None else f"there is no {program}")
    for kind in ("memcheck", "racecheck", "initcheck"):
        # The sweeps over all dtypes take 75 times as long under it, and come to the same kernels.
        done = s.run([tool, "--tool", kind, "--error-exitcode", "99", *(["--report-api-errors", "no"] if kind == "memcheck" else []), str(program),
                      "--gtest_filter=-CudaEveryDType.*"], 150, test_environment(a))
        if done is None:
            s.note("sanitizer", kind, "late")
            continue
        counts = gtest_counts(done.out)
        errors = re.findall(r"ERROR SUMMARY: (\d+)|RACECHECK SUMMARY: (\d+)", done.out + done.err)
        said = re.findall(r"^=+\s+(?:Invalid |Uninitialized |(?:Error|Warning): Race)", done.out + done.err, re.M)  # before a summary
        found = max(len(said), sum(int(number) for pair in errors for number in pair if number))
        # What was finished before the limit counts.
        right = counts["ok"] and found == 0 and not counts["failed"] and (done.code == 0 or done.timed_out)
        s.note("sanitizer", kind, "ok" if right else "failed", tests=len(counts["ok"]), errors=found, cut_off=done.timed_out,
               seconds=done.seconds, **({} if right else {"why": done.why()}))


# ---- training ---------------------------------------------------------------------------------------------------------


def learn(s, a, part, name, flags, ranks=1, environment=None, limit=150):
    """(losses, the program's last object); None where it failed, which is noted."""
    command = [str(a.bin / "train_cnn"), "--json", "--epochs", "1" if a.quick else "15", *flags]
    if ranks > 1:
        command = [str(a.bin / "dlrun"), "--nproc-per-node", str(ranks), *command]
    done = s.run(command, limit, environment)
    if done is None:
        return s.note(part, name, "late")
    last = done.objects[-1] if done.objects else {}
    if done.code != 0 or "test_accuracy" not in last:
        return s.note(part, name, "failed", why=done.why(), command=command)
    return [each["loss"] for each in done.objects if "loss" in each], last, done, command


def train(s, a):
    ways = [("cpu", ["--device", "cpu"]), (a.device, []), (f"{a.device} captured", ["--compile"]), (f"{a.device} bf16", ["--amp", "bf16"]),
            (f"{a.device} f16", ["--amp", "f16"]), (f"{a.device} captured bf16", ["--compile", "--amp", "bf16"])]
    if a.device == "cpu":
        ways = [(name, flags) for name, flags in ways[1:] if "--compile" not in flags and "f16" not in flags]
    wanted = None
    for name, flags in ways:
        got = learn(s, a, "train", name, flags if "--device" in flags else [*flags, "--device", a.device])
        if got is None:
            continue
        losses, last, done, command = got
        accuracy = last["test_accuracy"]
        wanted = accuracy if wanted is None else wanted
        # 360 test images: a point is three or four of them. This rate is near the largest that
        # trains, so rounding decides the first steps, and other seeds have another say.
        enough = wanted - (0.2 if a.quick else 0.015)
        tried = [accuracy]
        while accuracy < enough and len(tried) < (1 if a.quick else 3):
            again = learn(s, a, "train", f"{name}, seed {len(tried)}", [*flags, "--device", a.device, "--seed", str(len(tried))])
            if again is None:
                break
            tried.append(again[1]["test_accuracy"])
            accuracy = sorted(tried)[len(tried) // 2]
        right = accuracy >= enough
        fell_back = "steps are not captured" in done.out + done.err
        s.note("train", name, "ok" if right and not fell_back else "failed", accuracy=accuracy, cpu_accuracy=wanted, last_loss=losses[-1],
               samples_per_s=last["samples_per_s"], seconds=done.seconds, command=command, losses=losses[:20],
               accuracies=" ".join(f"{each:.3f}" for each in tried),
               **({"why": "the step was not captured"} if fell_back else {} if right else {"why": "less than on the CPU"}))


def worst_difference(a, b):
    return max((abs(x - y) / max(abs(y), 1e-3) for x, y in zip(a, b)), default=float("inf"))


def ranks(s, a):
    numbers = [int(text) for text in a.ranks.split(",")]
    ways = [("NCCL", SHARED), ("through the host", {})] if a.device != "cpu" else [("cpu", {})]
    for way, environment in ways:
        wanted = None
        for number in numbers:
            name = f"{number} ranks, {way}"
            got = learn(s, a, "ranks", name, ["--device", a.device, "--batch-size", str(32 // number)], number, environment)
            if got is None:
                continue
            losses, last, done, command = got
            wanted = wanted or losses
            # The first steps differ by rounding only; later ones by what rounding grows to.
            off = worst_difference(losses[:10], wanted[:10])
            s.note("ranks", name, "ok" if off < 1e-2 else "failed", worst_difference_of_10_losses=off, accuracy=last["test_accuracy"],
                   seconds=done.seconds, command=command, losses=losses[:10])
    collectives_of_ranks(s, a, numbers)


def collectives_of_ranks(s, a, numbers):
    names = ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "gather", "scatter", "all_to_all", "sendrecv"]
    cases = [(name, ["-b", "8", "-e", "4M", "-f", "512"]) for name in names]
    cases += [("all_reduce", ["-b", "4K", "-e", "4K", "-d", "all", "-o", "all"])]
    for number in [n for n in numbers if n > 1]:
        for name, sizes in cases[:2] if a.quick else cases:
            environment = SHARED if a.device != "cpu" else {}
            command = [str(a.bin / "dlrun"), "--nproc-per-node", str(number), str(a.bin / "dlbench"), name, *sizes, "-n", "5", "-w", "1",
                       "--device", a.device, "-T", "60", "--json"]
            done = s.run(command, 90, environment)
            label = f"{name} {' '.join(sizes)}, {number} ranks"
            if done is None:
                s.note("ranks", label, "late")
                continue
            rows = [each for each in done.objects if "wrong" in each]
            backends = sorted({each["backend"] for each in rows})
            wrong = sum(each["wrong"] for each in rows)
            right = done.code == 0 and rows and wrong == 0 and (a.device == "cpu" or backends == ["nccl"])
            s.note("ranks", label, "ok" if right else "failed", rows=rows, sizes_and_places=len(rows), wrong=wrong, over=" ".join(backends),
                   seconds=done.seconds, command=command, **({} if right else {"why": done.why()}))


# ---- failure ----------------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def on_the_gpu():
    """PIDs that nvidia-smi lists; in a container they may be another namespace's, so that only their number counts."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return [line for line in done.stdout.splitlines() if line.strip().isdigit()] if done.returncode == 0 else None


def kill(s, a):
    """Without dlrun, which would end the others at once: they must find out by themselves."""
    size, victim = 3, 1
    ways = [("NCCL", SHARED), ("through the host", {})] if a.device != "cpu" else [("cpu", {})]
    for way, environment in ways:
        if s.left() < 100:
            s.note("kill", way, "late")
            continue
        common = {**os.environ, **environment, "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(free_port())}
        command = [str(a.bin / "dlbench"), "all_reduce", "-b", "4M", "-e", "4M", "-N", "0", "--device", a.device, "-T", "20", "--json"]
        with tempfile.TemporaryDirectory() as folder:
            files = [open(os.path.join(folder, f"{rank}.{kind}"), "w+") for rank in range(size) for kind in ("out", "err")]
            group = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=files[2 * rank], stderr=files[2 * rank + 1], start_new_session=True,
                                      env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(size)]
            until = time.monotonic() + 60  # the first rows are there: all are in the loop
            while os.path.getsize(files[0].name) < 2000 and time.monotonic() < until and all(p.poll() is None for p in group):
                time.sleep(0.05)
            began = os.path.getsize(files[0].name) > 0
            before = time.monotonic()
            group[victim].send_signal(signal.SIGKILL)
            times, texts = {}, {}
            for rank in [r for r in range(size) if r != victim]:
                try:
                    group[rank].wait(timeout=max(0.1, before + 35 - time.monotonic()))
                    times[rank] = time.monotonic() - before
                except subprocess.TimeoutExpired:
                    end_group(group[rank])
                    group[rank].wait()
                with open(files[2 * rank + 1].name) as err:
                    texts[rank] = err.read().strip()
            group[victim].wait()
            for file in files:
                file.close()
        named = all(f"rank {victim}" in text for text in texts.values())
        codes = [group[rank].returncode for rank in times]
        right = began and len(times) == size - 1 and named and all(code not in (0, None) for code in codes) and max(times.values()) < 21
        remaining = on_the_gpu()
        for text in texts.values():
            print(f"    {text[:400]}", flush=True)
        s.note("kill", way, "ok" if right else "failed", seconds_until_last=max(times.values(), default=None), exit_codes=str(codes), named=named,
               processes_on_gpu_after="unknown" if remaining is None else len(remaining), command=command,
               **({} if right else {"why": "; ".join(texts.values())[:600] or "no rank said anything"}))


def nccl(s, a):
    if a.device == "cpu":
        return s.note("nccl", "all_reduce against bare ncclAllReduce", "skipped", why="for GPUs")
    number = max(1, len(gpus()))
    command = [str(a.bin / "dlrun"), "--nproc-per-node", str(number), str(a.bin / "dlbench"), "all_reduce", "-b", "8", "-e", "64M", "-f", "32",
               "--backend", "nccl", "--bare", "-C", "1", "--json"]
    done = s.run(command, 120)
    if done is None:
        return s.note("nccl", "all_reduce against bare ncclAllReduce", "late")
    rows = [each for each in done.objects if each.get("bare_us") is not None]
    more = [each["p50_us"] - each["bare_us"] for each in rows]
    right = done.code == 0 and rows and max(more) < 10
    s.note("nccl", f"all_reduce against bare ncclAllReduce, {number} ranks", "ok" if right else "failed", most_us_more=max(more, default=None), rows=rows,
           command=command, **({} if right else {"why": done.why() if done.code else "10 us or more"}))
    if a.peer_collectives and number > 1:
        command = [str(a.bin / "dlrun"), "--nproc-per-node", str(number), *a.peer_collectives.split(), "--op", "all_reduce", "-b", "8", "-e", "67108864",
                   "-f", "32", "--backend", "nccl", "--json"]
        done = s.run(command, 180)
        if done:
            s.note("nccl", "the peer's all_reduce", "ok" if done.code == 0 else "failed", command=command,
                   rows=[{**each, "backend": "peer"} for each in done.objects if "p50_us" in each])
