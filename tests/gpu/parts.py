"""The parts of figures.py that say whether dlrun is right on a GPU. Each takes the session and the options."""
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from runner import end_group, start
from training import SHARED, at_once, few_threads, status_of


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
    return s.run([str(a.bin / "bench_train"), "mlp", "--device", a.device, "--steps", "1", "--warmup", "0"], 120, environment)


def setup(s, a):
    """Once for all parts. What this finds is sent, as the parts have processes of their own."""
    find_libraries(s, a)
    if not a.peer:
        find_torch(s)


def find_libraries(s, a):
    """Where dlrun does not find CUDA's libraries by itself, they are named to it, and that is said."""
    if a.device == "cpu":
        return
    done = opens_device(s, a)
    if done.code == 0:
        return
    folders = ":".join(folders_of_python() + [os.environ.get("LD_LIBRARY_PATH", "")]).strip(":")
    again = opens_device(s, a, {"LD_LIBRARY_PATH": folders})
    if again.code == 0:
        s.send({"found": {"LD_LIBRARY_PATH": folders}})
    s.note("machine", "CUDA's libraries are found without help", "late" if done.late else "failed", why=done.why(),
           with_help="found" if again.code == 0 else again.why())


def find_torch(s):
    """The Python that has PyTorch: this one, that of an environment, or another in PATH."""
    environments = [os.path.join(os.environ[name], "bin/python3") for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if name in os.environ]
    pythons = [each for each in (sys.executable, *environments, shutil.which("python3"), shutil.which("python")) if each and os.path.exists(each)]
    why = "there is no Python"
    for python in {os.path.realpath(each): each for each in reversed(pythons)}.values():
        done = s.run([python, "-c", "import torch; print(torch.__version__)"], 60)
        if done.code == 0 and done.out.strip():
            here = os.path.dirname(os.path.abspath(__file__))
            s.note("machine", "PyTorch", "ok", versions=f"PyTorch {done.out.split()[-1]}", python=python, seconds=done.seconds)
            return s.send({"found": {"torch": [python, "-B", os.path.join(here, "torch_steps.py")]}})
        why = f"{python} cannot import torch: {done.why()}"
        if done.timed_out:
            break
    s.send({"found": {"no torch": why}})
    return s.note("machine", "PyTorch", "skipped", why=why)


def machine(s, a):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU")
    s.note("machine", "host", "ok", cpu=cpu, cpus=len(os.sched_getaffinity(0)), kernel=os.uname().release, python=sys.version.split()[0])
    for i, gpu in enumerate(gpus()):
        s.note("machine", f"GPU {i}", "ok", **{key.replace("name", "model"): value for key, value in gpu.items()})
    version = s.run([str(a.bin / "dlrun"), "--version"], 20)
    s.note("machine", "dlrun", status_of(version, version.code == 0), versions=version.out.strip(), **({} if version.code == 0 else {"why": version.why()}))
    done = opens_device(s, a)
    right = done.code == 0
    s.note("machine", f"a first network on {a.device}", status_of(done, right), seconds=done.seconds, **({} if right else {"why": done.why()}))


# ---- test programs ----------------------------------------------------------------------------------------------------


def test_environment(a):
    # Counts are read from GoogleTest's words, whatever the user's environment wants of them.
    return {"GTEST_BRIEF": "0", "GTEST_COLOR": "no", "DLRUN_TEST_BIN": str(a.bin),
            "DLRUN_TEST_SOURCE": str(a.data / "share/dlrun" if (a.data / "share/dlrun").exists() else a.data)}


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


# Suites in order of importance: whole networks, then the kernels of each kind, then every operation in every dtype.
SUITES = ["CudaTraining", "CudaNetworks", "CudaAttention", "CudaNorm", "CudaNetwork", "CudaReduce", "CudaResample", "CudaOrder", "CudaRandom", "CudaElementwise"]
QUICK_SUITES = ["CudaComposed", "CudaRandom", "CudaResample"]
SWEEPS = "CudaEveryDType"


def suites(s, a, program):
    done = s.run([str(program), "--gtest_list_tests"], 30, test_environment(a))
    found = re.findall(r"^(\w+)\.$", done.out, re.M)
    if a.quick:
        return [name for name in QUICK_SUITES if name in found]
    known = [name for name in SUITES if name in found]
    return known + [name for name in found if name not in known and name != SWEEPS] + [name for name in found if name == SWEEPS]


def ops(s, a):
    """The suites of operations a few at a time; programs that wait for ranks and deadlines alone."""
    if not programs(a):
        return s.note("ops", "test programs", "skipped", why=f"none in {a.tests}; make the bundle with --tests")
    swept = a.tests / "cuda_ops_test"
    calls = [(swept, name) for name in suites(s, a, swept)] if swept in programs(a) else []
    first, last = [c for c in calls if c[1] != SWEEPS], [c for c in calls if c[1] == SWEEPS]
    others = [(program, None) for program in programs(a) if program != swept]
    for group, together in ((first, at_once(a)), ([c for c in others if c[0].name in ON_THE_GPU], 1), (last, 1),
                            ([c for c in others if c[0].name not in ON_THE_GPU], 1)):
        commands = [[str(program), *([f"--gtest_filter={suite}.*"] if suite else [])] for program, suite in group]
        for index, done in s.run_all(commands, 240, {**test_environment(a), **(few_threads(a) if together > 1 else {})}, together):
            program, suite = group[index]
            judge(s, a, program, f"{program.name} {suite}" if suite else program.name, done)
    return None


ON_THE_GPU = ("cuda_collectives_test",)  # the others of these names run over fakes


def judge(s, a, program, name, first):
    counts = gtest_counts(first.out)
    # The test that time ended says nothing; a kernel that fails takes its process with it, and with that what came after it.
    bad = counts["failed"] + ([] if first.late else counts["unfinished"])
    alone = {}
    for test in bad[:40]:
        done = s.run([str(program), f"--gtest_filter={test}"], 60, test_environment(a))
        said = re.search(r": Failure\n(.+)", done.out)
        alone[test] = "late" if done.late else "passed" if done.code == 0 else said[1][:300] if said and done.code == 1 else done.why()
    broken = {test: what for test, what in alone.items() if what not in ("passed", "late")}
    # If bench_train sees a device, tests that see none are wrong.
    right = first.code == 0 and not broken and (counts["ok"] or a.device == "cpu")
    why = "; ".join(f"{test}: {what}" for test, what in list(broken.items())[:10]) or first.why()
    s.note("ops", name, "ok" if right else "late" if first.late and not broken else "failed", passed=len(counts["ok"]), failed=len(broken) + len(bad[40:]),
           only_after_others=sum(what == "passed" for what in alone.values()), skipped=len(counts["skipped"]), seconds=first.seconds,
           **({} if right else {"why": why}))


def sanitizer(s, a):
    tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    program = a.tests / "cuda_ops_test"
    if tool is None or not program.exists():
        return s.note("sanitizer", "all", "skipped", why="there is no compute-sanitizer here" if tool is None else f"there is no {program}")
    for kind in ("memcheck", "racecheck", "initcheck"):
        # The sweeps over all dtypes take 75 times as long under it, and come to the same kernels.
        done = s.run([tool, "--tool", kind, "--error-exitcode", "99", *(["--report-api-errors", "no"] if kind == "memcheck" else []), str(program),
                      "--gtest_filter=-CudaEveryDType.*"], 150, test_environment(a))
        if done.late and not gtest_counts(done.out)["ok"]:
            s.note("sanitizer", kind, "late", why=done.why())
            continue
        counts = gtest_counts(done.out)
        errors = re.findall(r"ERROR SUMMARY: (\d+)|RACECHECK SUMMARY: (\d+)", done.out + done.err)
        said = re.findall(r"^=+\s+(?:Invalid |Uninitialized |(?:Error|Warning): Race)", done.out + done.err, re.M)  # before a summary
        found = max(len(said), sum(int(number) for pair in errors for number in pair if number))
        # What was finished before the limit counts.
        right = counts["ok"] and found == 0 and not counts["failed"] and (done.code == 0 or done.timed_out)
        s.note("sanitizer", kind, "ok" if right else "failed", tests=len(counts["ok"]), errors=found, cut_off=done.timed_out,
               seconds=done.seconds, **({} if right else {"why": done.why()}))


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
    for way, environment in ways[:1] if a.quick else ways:
        if s.left() < 10:
            s.note("kill", way, "late", why="no time was left")
            continue
        common = {**environment, "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(free_port())}
        command = [str(a.bin / "dlbench"), "all_reduce", "-b", "4M", "-e", "4M", "-N", "0", "--device", a.device, "-T", "20", "--json"]
        with tempfile.TemporaryDirectory() as folder:
            files = [open(os.path.join(folder, f"{rank}.{kind}"), "w+") for rank in range(size) for kind in ("out", "err")]
            group = [start(command, files[2 * rank], files[2 * rank + 1], {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(size)]
            until = time.monotonic() + min(60, s.left() / 2)  # the first rows are there: all are in the loop
            while os.path.getsize(files[0].name) < 2000 and time.monotonic() < until and all(p.poll() is None for p in group):
                time.sleep(0.05)
            began = os.path.getsize(files[0].name) > 0
            before = time.monotonic()
            group[victim].send_signal(signal.SIGKILL)
            times, texts = {}, {}
            for rank in [r for r in range(size) if r != victim]:
                try:
                    group[rank].wait(timeout=max(0.1, min(before + 35 - time.monotonic(), s.left() - 1)))
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
            s.send({"say": f"    {text[:400]}"})
        late = not right and s.left() < 2
        s.note("kill", way, "ok" if right else "late" if late else "failed", seconds_until_last=max(times.values(), default=None), exit_codes=str(codes), named=named,
               processes_on_gpu_after="unknown" if remaining is None else len(remaining), command=command,
               **({} if right else {"why": "; ".join(texts.values())[:600] or "no rank said anything"}))


def nccl(s, a):
    if a.device == "cpu":
        return s.note("nccl", "all_reduce against bare ncclAllReduce", "skipped", why="for GPUs")
    number = max(1, len(gpus()))
    command = [str(a.bin / "dlrun"), "--nproc-per-node", str(number), str(a.bin / "dlbench"), "all_reduce", "-b", "8", "-e", "4K" if a.quick else "64M",
               "-f", "32", "--backend", "nccl", "--bare", "-C", "1", "--json"]
    done = s.run(command, 120)
    rows = [each for each in done.objects if each.get("bare_us") is not None]
    more = [each["p50_us"] - each["bare_us"] for each in rows]
    slow = bool(rows) and max(more) >= 10 and not a.quick
    right = done.code == 0 and rows and not slow
    s.note("nccl", f"all_reduce against bare ncclAllReduce, {number} ranks", "ok" if right else "late" if done.late else "failed",
           most_us_more=max(more, default=None), rows=rows, command=command,
           **({} if right else {"why": "10 us or more" if done.code == 0 and slow else done.why()}))
    if a.peer_collectives and number > 1:
        command = [str(a.bin / "dlrun"), "--nproc-per-node", str(number), *a.peer_collectives.split(), "--op", "all_reduce", "-b", "8", "-e", "67108864",
                   "-f", "32", "--backend", "nccl", "--json"]
        done = s.run(command, 180)
        s.note("nccl", "the peer's all_reduce", status_of(done, done.code == 0), command=command, **({} if done.code == 0 else {"why": done.why()}),
               rows=[{**each, "backend": "peer"} for each in done.objects if "p50_us" in each])
    return None
