#!/usr/bin/env python3
"""Times dlbench and other libraries' programs in turns, and prints the ratio of the others' times to dlbench's.

    collectives/bench/compare.py --ranks 2 --ranks 4 --op all_reduce --sizes 8:64M:2 --backend tcp --floor \\
        --torch .../torch_collectives.py --python .../bin/python --keep tcp.jsonl
    collectives/bench/compare.py --op all_reduce --op barrier --sizes 8:64M:8 --backend auto --mpi .../mpi_collectives.c \\
        --intel-mpi DIR --keep shm.jsonl

A round runs every program once, one after the other, so that whatever else the machine does meets all of them; before each round
it looks whether other programs use the CPUs, and waits for a while until they do not. A program that fails or exceeds its limit loses
that round only; one that exceeded it twice is left out. Every line of JSON that a program prints is kept, with its round, in the file
that --keep names. The programs are
those that take dlbench's -b -e -f and print its JSON keys.

MPI programs are compiled here from the source that --mpi names, and run as Open MPI (its default, coll_han_priority 100, no
single-copy), MPICH (-bind-to core) and Intel MPI; a library that is not here is left out, and said so.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import quiet

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_OVER = "not over"
# A launcher may hang once by accident, but a program that always hangs must not delay all rounds.
MOST_HANGS = 2
# For programs that can do either; the others write the result out of place.
IN_PLACE = ("all_reduce", "broadcast", "barrier")


def say(text):
    print(f"# {time.strftime('%H:%M:%S')} {text}", flush=True)


class Contestant:
    def __init__(self, name, command, kind="peer", environment=None):
        self.name = name
        self.command = command  # (op, ranks) -> list of words, without the sizes
        self.kind = kind        # ours, floor, mpi, peer
        self.environment = environment or {}


def compile_mpi(source, compiler, output):
    """The program's path, or None after the reason was printed."""
    if shutil.which(compiler[0]) is None:
        return say(f"left out: there is no {compiler[0]}")
    done = subprocess.run([compiler[0], "-O2", source, "-o", output, *compiler[1:]], stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["it does not say why"]
        return say(f"left out: {shlex.join(compiler)} fails: {said[0]}")
    return output


def mpi_contestants(a, folder):
    def command(launcher, program):
        return lambda op, ranks: [*launcher(ranks), "-np", str(ranks), program, "--op", op, "--json", "1", "--keep-memory", "1"]

    found = []
    cpus = len(os.sched_getaffinity(0))
    open_mpi = compile_mpi(a.mpi, shlex.split(a.open_mpi_cc), f"{folder}/open_mpi")
    if open_mpi:
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
        for name, extra in (("Open MPI", []), ("Open MPI han", ["--mca", "coll_han_priority", "100"]),
                            ("Open MPI copy", ["--mca", "btl_vader_single_copy_mechanism", "none"])):
            launcher = lambda ranks, extra=extra: ["mpirun.openmpi", *(["--oversubscribe"] if ranks > cpus else []), *extra]
            found.append(Contestant(name, command(launcher, open_mpi), "mpi", root))
    mpich = compile_mpi(a.mpi, shlex.split(a.mpich_cc), f"{folder}/mpich")
    if mpich:
        found.append(Contestant("MPICH", command(lambda _: ["mpiexec.mpich", "-bind-to", "core"], mpich), "mpi"))
    if a.intel_mpi and mpich:  # it has MPICH's ABI
        home = pathlib.Path(a.intel_mpi)
        environment = {"I_MPI_FABRICS": "shm", "I_MPI_ROOT": str(home), "LD_LIBRARY_PATH": f"{home}/lib:{home}/lib/release",
                       "PATH": f"{home}/bin:{os.environ['PATH']}"}
        found.append(Contestant("Intel MPI", command(lambda _: [f"{home}/bin/mpiexec.hydra"], mpich), "mpi", environment))
    return found


def contestants(a, folder):
    dlrun, dlbench = (str(pathlib.Path(a.bin) / name) for name in ("dlrun", "dlbench"))

    def ours(backend, flags=()):
        return lambda op, ranks: [dlrun, "--nproc-per-node", str(ranks), dlbench, op, "--backend", backend, "--json",
                                  *shlex.split(a.flags), *flags]

    found = [Contestant("dlrun" if len(a.backend) == 1 else f"dlrun {backend}", ours(backend), "ours") for backend in a.backend]
    if a.floor:
        found.append(Contestant("floor", lambda op, ranks: ours("tcp")("floor", ranks), "floor"))
    if a.torch:
        found.append(Contestant("Gloo", lambda op, ranks: [dlrun, "--nproc-per-node", str(ranks), a.python, a.torch, "--op", op, "--json"]))
    if a.mpi:
        found += mpi_contestants(a, folder)
    for text in a.peer:
        name, words = text.split("=", 1)
        found.append(Contestant(name, lambda op, ranks, words=words: shlex.split(words.format(op=op, ranks=ranks))))
    return found


def run(command, environment, limit):
    """(the JSON objects that it printed, an error text or None). Ends all of its processes."""
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 errors="replace", env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, start_new_session=True)
    except OSError as error:
        return [], f"{error.strerror}: {error.filename}"
    try:
        output, _ = child.communicate(timeout=limit)
        problem = None if child.returncode == 0 else f"exit code {child.returncode}"
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGTERM)  # dlrun and mpirun end their ranks
        try:
            output, _ = child.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            output = ""
        problem = f"{NOT_OVER} after {limit:g} s"
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
    rows, rest = [], []
    for line in output.splitlines():
        try:
            rows.append(json.loads(line[line.index("{"):], strict=False))  # behind dlrun's prefix of a rank; MPICH's name has a tab
        except ValueError:
            rest.append(line)
    if problem and rest and not problem.startswith(NOT_OVER):
        problem += f": {rest[-1][:200]}"
    return rows, problem


def parse_sizes(text):
    """BEGIN[:END[:FACTOR]] as the flags that every program takes."""
    parts = text.split(":")
    begin, end, factor = parts[0], parts[1] if len(parts) > 1 else parts[0], parts[2] if len(parts) > 2 else "2"
    return ["-b", begin, "-e", end, "-f", factor]


def rows_of_interest(rows, op):
    """{bytes: p50}; for dlbench in or out of place, as the others measure."""
    taken = {}
    for row in rows:
        if "p50_us" not in row or row["p50_us"] is None or row.get("wrong"):
            continue
        if row.get("algorithm") is not None and row["op"] == op and bool(row["in_place"]) != (op in IN_PLACE):
            continue
        taken[0 if op == "barrier" else row["bytes"]] = row["p50_us"]
    return taken


class Rounds:
    def __init__(self, a, who, keep):
        self.a, self.who, self.keep = a, who, keep
        self.times = {}  # {(op, ranks): {name: {bytes: [p50 of each round]}}}
        self.problems = []
        self.hung = {}  # {case: how often it was not over in time}
        self.ours_failed = False
        self.done = self.noisy = 0

    def round(self, number):
        share = quiet.wait_until_quiet(self.a.busy, self.a.wait, say)
        self.noisy += share > self.a.busy
        started = time.monotonic()
        for ranks in self.a.ranks:
            for op in self.a.op:
                for c in self.who:
                    if c.kind != "floor" or op == "all_reduce":
                        for sizes in self.a.sizes if op != "barrier" else ["8"]:
                            self.one(number, c, op, ranks, sizes, share)
        self.done += 1
        say(f"round {number} of {self.a.rounds}: {time.monotonic() - started:.0f} s")

    def one(self, number, c, op, ranks, sizes, share):
        case = (c.name, op, ranks, sizes)
        if self.hung.get(case, 0) >= MOST_HANGS:
            return
        rows, problem = run([*c.command(op, ranks), *parse_sizes(sizes)], c.environment, self.a.limit)
        if problem is not None and problem.startswith(NOT_OVER):
            self.hung[case] = self.hung.get(case, 0) + 1
            if self.hung[case] == MOST_HANGS:
                problem += "; left out from now on"
        if problem is None and not rows:
            problem = "it printed no figures"
        if problem is None and any(row.get("wrong") for row in rows):
            problem = "wrong results"
        if problem:
            self.ours_failed |= c.kind in ("ours", "floor")
            self.problems.append(f"round {number}: {c.name}, {op}, {ranks} ranks, {sizes}: {problem}")
            say(self.problems[-1])
        for row in rows:
            print(json.dumps({"round": number, "name": c.name, "others_share": round(share, 3), **row}), file=self.keep, flush=True)
        for size, us in rows_of_interest(rows, op).items():
            self.times.setdefault((op, ranks), {}).setdefault(c.name, {}).setdefault(size, []).append(us)


def size_text(size):
    for shift, unit in ((30, "G"), (20, "M"), (10, "K")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}iB"
    return f"{size} B" if size else "-"


def ratio_text(ratio):
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def print_table(title, times, who):
    """times: {name: {bytes: [p50 of each round]}}"""
    print(f"\n{title}")
    reference = next(c.name for c in who if c.kind == "ours")
    best = "best MPI"
    names = [c.name for c in who if times.get(c.name)]
    mpis = [c.name for c in who if c.kind == "mpi" and times.get(c.name)]
    for label, of in (("medians", statistics.median), ("minima", min)):
        columns = names + ([best] if len(mpis) > 1 else [])
        print(f"\n{label} of the rounds' p50 in us, and how many times as long as {reference} it is\n")
        print(f"{'size':>9} | " + " | ".join(f"{name:>17}" for name in columns))
        print(f"{'-' * 9}:|" + "|".join("-" * 18 + ":" for _ in columns))
        for size in sorted({s for name in names for s in times[name]}):
            figures = {name: of(times[name][size]) for name in names if times[name].get(size)}
            if len(mpis) > 1 and any(name in figures for name in mpis):
                figures[best] = min(figures[name] for name in mpis if name in figures)
            cells = []
            for name in columns:
                if name not in figures:
                    cells.append(f"{'-':>17}")
                elif name == reference or reference not in figures:
                    cells.append(f"{figures[name]:>10.2f}       ")
                else:
                    cells.append(f"{figures[name]:>10.2f} {ratio_text(figures[name] / figures[reference]):>5}x")
            print(f"{size_text(size):>9} | " + " | ".join(cells))
    sys.stdout.flush()


def machine():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else 'unknown CPU'}, {len(os.sched_getaffinity(0))} CPUs, Linux {os.uname().release}"


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--op", action="append", help="operation; may be given again (all_reduce)")
    p.add_argument("--ranks", type=int, action="append", help="ranks on this host; may be given again (2)")
    p.add_argument("--sizes", action="append", metavar="BEGIN[:END[:FACTOR]]", help="may be given again (8:64M:2)")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--bin", default=str(ROOT / "build/release/bin"), help="where dlrun and dlbench are")
    p.add_argument("--backend", action="append", help="dlbench's; may be given again, the first is what ratios refer to (auto)")
    p.add_argument("--flags", default="", help="further flags of dlbench, e.g. --flags=--symmetric")
    p.add_argument("--floor", action="store_true", help="also the bare socket exchange")
    p.add_argument("--torch", metavar="PROGRAM", help="torch.distributed over Gloo")
    p.add_argument("--python", default="python3", help="with torch")
    p.add_argument("--mpi", metavar="SOURCE", help="a C program that times MPI's collectives")
    p.add_argument("--open-mpi-cc", default="mpicc.openmpi")
    p.add_argument("--mpich-cc", default="mpicc.mpich")
    p.add_argument("--intel-mpi", metavar="DIR", help="with bin/mpiexec.hydra and lib/libmpi.so.12")
    p.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND", help="another program; {op} and {ranks} are replaced")
    p.add_argument("--limit", type=float, default=60, help="seconds that a program may take (60)")
    p.add_argument("--wait", type=float, default=20, help="seconds to wait before a round until the CPUs are free (20)")
    p.add_argument("--busy", type=float, default=0.05, help="share of the CPUs' time that others may use (0.05)")
    p.add_argument("--keep", default="compare.jsonl", help="file for what the programs print (compare.jsonl)")
    a = p.parse_args()
    a.op, a.ranks = a.op or ["all_reduce"], a.ranks or [2]
    a.sizes, a.backend = a.sizes or ["8:64M:2"], a.backend or ["auto"]
    for text in a.sizes:
        if not re.fullmatch(r"\d+[KMGT]?(:\d+[KMGT]?(:\d+)?)?", text):
            p.error(f"--sizes {text} is not BEGIN[:END[:FACTOR]]")
    for text in a.peer:
        try:
            name, words = text.split("=", 1)
            words.format(op="", ranks="")
        except (ValueError, KeyError, IndexError):
            p.error(f"--peer {text} is not NAME=COMMAND, with {{op}} and {{ranks}} where they go")
    if a.rounds < 1 or min(a.ranks) < 1:
        p.error("--rounds and --ranks are at least 1")
    if not (pathlib.Path(a.bin) / "dlrun").exists():
        p.error(f"there is no dlrun in {a.bin}; build it, or name its folder with --bin")
    return a


def open_kept(path):
    try:
        return open(path, "w")
    except OSError as error:
        sys.exit(f"compare.py: --keep {path}: {error.strerror}")


def main():
    a = arguments()
    with tempfile.TemporaryDirectory() as folder, open_kept(a.keep) as keep:
        who = contestants(a, folder)
        say(machine())
        print(json.dumps({"machine": machine(), "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "command": sys.argv}), file=keep, flush=True)
        for c in who:
            say(f"{c.name}: {shlex.join([*(f'{k}={v}' for k, v in c.environment.items() if k != 'PATH'), *c.command(a.op[0], a.ranks[0]), *parse_sizes(a.sizes[0])])}")
        rounds = Rounds(a, who, keep)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            for number in range(1, a.rounds + 1):
                rounds.round(number)
        except KeyboardInterrupt:
            say("stopped; this is what there is")
        # Symmetric memory is a special allocation, which the other libraries do not have.
        contract = "dlrun's buffers symmetric, the others' any pointer" if "--symmetric" in a.flags.split() else "any pointer"
        for (op, ranks), found in rounds.times.items():
            print_table(f"{op}, {ranks} ranks, {'in place' if op in IN_PLACE else 'out of place'}, {contract}", found, who)
        print(f"\n{rounds.done} rounds, {rounds.noisy} of them beside other programs; {len(rounds.problems)} runs failed; all rows: {a.keep}")
        for problem in rounds.problems:
            print(f"  {problem}")
    return 1 if rounds.ours_failed else 0


if __name__ == "__main__":
    sys.exit(main())
