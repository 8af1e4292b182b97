"""figures.py over programs that are made for the purpose: what it runs, what it makes of what they say, and that nothing stops it."""
import argparse
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import figures  # noqa: E402
import guard  # noqa: E402
import parts  # noqa: E402
import runner  # noqa: E402
import steps  # noqa: E402
import summary  # noqa: E402

GTEST = """[ RUN      ] Ops.Add
[       OK ] Ops.Add (1 ms)
[ RUN      ] Sizes/Ops.Mul/2
[  FAILED  ] Sizes/Ops.Mul/2, where GetParam() = 3 (1 ms)
[ RUN      ] Ops.Capture
[  SKIPPED ] Ops.Capture (0 ms)
[ RUN      ] Ops.Crash
[  PASSED  ] 1 test.
[  FAILED  ] 1 test, listed below:
[  FAILED  ] Sizes/Ops.Mul/2, where GetParam() = 3
"""

PROGRAMS = {
    "dlrun": '[ "$1" != --version ] || { echo dlrun 9.9; exit; }; shift 2; exec "$@"',
    "train_cnn": """case "$*" in *f16*) case "$*" in *bf16*) ;; *) echo "error: f16 is broken" >&2; exit 1 ;; esac ;; esac
accuracy=0.97
case "$*" in *--compile*) accuracy=0.6 ;; esac
for loss in 2 1 0; do echo "[rank 0] {\\"loss\\": $loss}"; done
echo "[rank 0] {\\"test_accuracy\\": $accuracy, \\"samples_per_s\\": 10}" """,
    "dlbench": """case "$*" in *--bare*) bare=5 ;; *) bare=null ;; esac
echo "{\\"op\\": \\"$1\\", \\"backend\\": \\"nccl\\", \\"bytes\\": 8, \\"p50_us\\": 12, \\"wrong\\": 0, \\"in_place\\": true, \\"bare_us\\": $bare}" """,
    "bench_train": """case "$*" in *"--batch 256"*) sleep 300 ;; *densenet121*f16*) echo '{"losses": [9, 1, 1]}'; exit ;;
  *--losses*) echo '{"losses": [2, 1.5, 1]}'; exit ;; esac
echo '{"median_ms": 1.0, "p10_ms": 1, "p90_ms": 1, "peak_mib": 10}'""",
    "nvidia-smi": "echo 'NVIDIA H200, 580.159.04, 143771 MiB, 9.0'",
    "peer": """case "$*" in conv18*) echo "argument work: invalid choice: 'conv18'" >&2; exit 2 ;; *--mode*) ms=0.5 ;; *) ms=2 ;; esac
echo "{\\"median_ms\\": $ms, \\"p10_ms\\": 1, \\"p90_ms\\": 1, \\"peak_mib\\": 20}" """,
}


class Figures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        (self.root / "bin").mkdir()
        (self.root / "tests").mkdir()
        for name, text in PROGRAMS.items():
            self.program(f"bin/{name}", text)

    def program(self, name, text):
        path = self.root / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    @staticmethod
    def runs(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
        except OSError:
            return False

    def figures(self, *arguments):
        path = f"{self.root}/bin:{os.environ['PATH']}"
        done = subprocess.run([sys.executable, "-B", str(HERE / "figures.py"), "--root", str(self.root), "--out", str(self.root / "out"), *arguments],
                              capture_output=True, text=True, timeout=200, env={**os.environ, "PATH": path})
        with open(self.root / "out/results.jsonl") as file:
            return done, {(r["part"], r["name"], r.get("program")): r for r in map(json.loads, file)}

    def test_what_goes_wrong_is_named_and_stops_nothing(self):
        self.program("tests/cuda_ops_test", f"case $1 in *list*) printf 'Ops.\\n  Add\\nSizes/Ops.\\n'; exit ;; esac\ncat <<'END'\n{GTEST}END\n[ \"$1\" = --gtest_filter=Ops.Crash ]")
        done, results = self.figures("machine", "ops", "networks", "train", "ranks", "nccl", "sanitizer", "--ranks", "1,2")
        self.assertEqual(done.returncode, 1, done.stderr)
        status = {key[:2]: r["status"] for key, r in results.items()}
        self.assertEqual(results["machine", "GPU 0", None]["model"], "NVIDIA H200")
        self.assertEqual(status["machine", "a first network on cuda"], "ok")
        ops = results["ops", "cuda_ops_test Ops", None]
        self.assertEqual((ops["status"], ops["passed"], ops["failed"], ops["only_after_others"], ops["skipped"]), ("failed", 1, 1, 1, 1))
        self.assertEqual(status["networks", "resnet18 tf32 captured"], "ok")
        self.assertIn("the first loss is 9", results["networks", "densenet121 f16 captured", None]["why"])
        self.assertEqual(status["train", "cpu"], "ok")
        self.assertEqual(status["train", "cuda bf16"], "ok")
        self.assertEqual(results["train", "cuda captured", None]["why"], "less than on the CPU")
        self.assertIn("f16 is broken", results["train", "cuda f16", None]["why"])
        self.assertEqual(status["ranks", "2 ranks, NCCL"], "ok")
        self.assertEqual(status["ranks", "broadcast -b 8 -e 4M -f 512, 2 ranks"], "ok")
        self.assertEqual(results["nccl", "all_reduce against bare ncclAllReduce, 1 ranks", None]["most_us_more"], 7)
        page = (self.root / "out/summary.md").read_text()
        self.assertIn("| cuda captured | failed |", page)
        self.assertIn("- train: cuda f16: exit code 1: error: f16 is broken", page)
        self.assertRegex(page, r"\| train \| 3 \| 3 \|  \|  \| [0-9.]+ \| [0-9.]+ \|")
        self.assertIn("| 8 | in place | nccl | 12 | 5 | 7 |", page)

    def test_a_seed_that_trains_badly_is_weighed_against_others(self):
        self.program("bin/train_cnn", """accuracy=0.98
case "$*" in *"--amp f16"*--seed*) ;; *"--amp f16"*) accuracy=0.5 ;; *"--amp bf16"*) accuracy=0.5 ;; esac
echo '{"loss": 1}'; echo "{\\"test_accuracy\\": $accuracy, \\"samples_per_s\\": 10}" """)
        _, results = self.figures("train")
        f16, bf16 = (results["train", f"cuda {kind}", None] for kind in ("f16", "bf16"))
        self.assertEqual((f16["status"], f16["accuracy"], f16["accuracies"]), ("ok", 0.98, "0.500 0.980"))
        self.assertEqual((bf16["status"], bf16["accuracies"]), ("failed", "0.500 0.500 0.500"))

    def test_times_stand_beside_the_peers_and_a_budget_ends_what_hangs(self):
        peer = str(self.root / "bin/peer")
        done, results = self.figures("bench", "compile", "--peer", peer, "--rows", "64 f32 latency")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        row = "cnn-64 f32 latency"
        self.assertEqual(results["bench", row, "ours captured"]["median_ms"], 1)
        self.assertEqual(results["compile", row, "peer max-autotune"]["median_ms"], 0.5)
        page = (self.root / "out/summary.md").read_text()
        self.assertIn(f"| {row} | 1 | 1 | 2 | 2 | 0.5 (reduce-overhead) | 2.00 x | 2.00 x | 0.50 x | 10 / 20 |", page)
        done, results = self.figures("bench", "--rows", "conv18-256 f32", "--budget", "4", "--peer", peer)
        # A loaded machine may have no time even to begin it.
        ours = results.get(("bench", "conv18-256 f32 latency", "ours eager"))
        if ours:
            self.assertEqual(ours["status"], "late")
            self.assertIn("bench: conv18-256 f32 latency, ours eager; ", (self.root / "out/summary.md").read_text())
        self.assertTrue([r for r in results.values() if r["part"] == "bench" and r["status"] in ("late", "failed")], done.stdout)
        self.program("bin/bench_train", "exit 1")
        done, results = self.figures("bench", "--rows", "conv18-256 bf16 latency", "--peer", peer)
        self.assertEqual(results["bench", "conv18-256 bf16 latency", "peer eager"]["status"], "skipped")

    def test_a_profile_says_what_limits_a_step(self):
        names = '"ID","Kernel Name","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed"'
        lines = [names, '"","","%","ns","%"'] + [f'"{i}","{name}","80","{ns}","20"' for i in range(8) for name, ns in (("a", "1,000"), ("b", "600000"))]
        self.program("bin/ncu", "cat <<'END'\n==PROF== Connected\n" + "\n".join(lines) + "\nEND")
        done, results = self.figures("profile", "--rows", "cnn-64 bf16")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = results["profile", "cnn-64 bf16 latency", None]
        self.assertEqual((found["kernels"], found["limited_by"]), (2, "launching"))  # 0.6 ms of 1 ms
        self.assertEqual(found["longest"], "100 % b; 0 % a")
        self.assertAlmostEqual(found["percent_of_memory_peak"], 80)

    def test_what_a_test_program_printed_is_counted_also_where_it_was_cut_off(self):
        self.assertEqual(parts.gtest_counts(GTEST), {"ok": ["Ops.Add"], "failed": ["Sizes/Ops.Mul/2"], "skipped": ["Ops.Capture"], "unfinished": ["Ops.Crash"]})

    def session(self, seconds=60):
        sent = []
        return runner.Session(sent.append, time.monotonic() + seconds, str(self.root / "log.txt")), sent

    def ends(self, pid):
        until = time.monotonic() + 60  # a signal takes a moment to end a process
        while self.runs(pid) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(self.runs(pid), pid)

    def test_a_program_that_does_not_end_is_ended_with_its_children(self):
        session, _ = self.session()
        done = session.run(["sh", "-c", "trap '' TERM; sleep 300 & echo $!; wait"], 5)
        self.assertTrue(done.timed_out)
        self.assertIn("not over after", done.why())
        self.ends(int(done.out))
        self.assertEqual(session.run(["no such program"], 9).code, 127)

    def test_what_a_program_leaves_behind_delays_nothing(self):
        """A grandchild in a session of its own holds the program's output open."""
        folder = str(self.root / "guarded")
        os.mkdir(folder)
        keeper = guard.Keeper(folder)

        def part(session, _):
            done = session.run(["sh", "-c", "setsid sleep 300 & echo $!"], 100)
            session.note("part", "program", "late" if done.timed_out else "ok", pid=int(done.out))

        guard.run_part(keeper, guard.Stop(), "part", part, None, time.monotonic() + 200)
        self.assertEqual([r["status"] for r in keeper.results], ["ok", "ok"])
        self.ends(keeper.results[0]["pid"])

    def test_a_program_that_prints_without_end_is_ended(self):
        done = self.session()[0].run(["yes"], 60)
        self.assertIn("more than 64 MiB", done.why())

    def test_a_part_that_hangs_is_ended_and_what_was_found_is_kept(self):
        folder = str(self.root / "guarded")
        os.mkdir(folder)
        keeper = guard.Keeper(folder, 1.0)

        def hangs(session, _):
            session.note("hangs", "before", "ok")
            while True:
                try:
                    time.sleep(300)
                except BaseException:
                    pass

        def breaks(session, _):
            session.note("breaks", "before", "ok")
            raise KeyError("mine")

        for name, part, seconds in (("hangs", hangs, 4), ("breaks", breaks, 100), ("dies", lambda *_: os.kill(os.getpid(), 9), 100)):
            guard.run_part(keeper, guard.Stop(), name, part, None, time.monotonic() + seconds)
        page = keeper.page()
        self.assertIn("hangs: the part: hung", page)
        self.assertIn("KeyError: 'mine'", page)
        self.assertIn("dies: the part: its process ended with -9", page)
        self.assertEqual((pathlib.Path(folder) / "summary.md").read_text(), page)
        kept = summary.read([pathlib.Path(folder) / "results.jsonl"])
        self.assertEqual([r["name"] for r in kept if r["name"] == "before"], ["before"] * 2)

    def test_a_full_disk_costs_the_files_and_not_the_figures(self):
        done = subprocess.run([sys.executable, "-B", str(HERE / "figures.py"), "machine", "--root", str(self.root), "--out", str(self.root / "out")],
                              capture_output=True, text=True, timeout=200, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("results.jsonl: File too large; what it lacks is only printed", done.stdout)
        self.assertIn("| a first network on cuda | ok |", done.stdout)

    def test_a_signal_ends_what_runs_and_the_page_is_written(self):
        self.program("bin/dlrun", f"echo $$ >{self.root}/began; exec sleep 300")
        process = subprocess.Popen([sys.executable, "-B", str(HERE / "figures.py"), "machine", "train", "--root", str(self.root), "--out", str(self.root / "out")],
                                   stdout=subprocess.DEVNULL)
        began = self.root / "began"
        while not (began.exists() and began.read_text().strip()):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=100), 128 + signal.SIGTERM)
        self.ends(int(began.read_text()))
        self.assertIn("| host | ok |", (self.root / "out/summary.md").read_text())
        self.assertIn("train: the part", (self.root / "out/summary.md").read_text())

    def test_a_peer_that_hangs_is_called_once(self):
        self.program("bin/peer", f"echo x >>{self.root}/calls; exec sleep 300")
        done, results = self.figures("bench", "--rows", "cnn-64 f32 latency", "--budget", "15", "--peer", str(self.root / "bin/peer"))
        self.assertEqual(results["bench", "cnn-64 f32 latency", "ours captured"]["status"], "ok")
        self.assertEqual(results["bench", "cnn-64 f32 latency", "peer channels-last"]["why"], "a call before it did not end")
        self.assertEqual((self.root / "calls").read_text(), "x\n")
        self.program("bin/peer", "echo '[1] {nothing'")
        done, results = self.figures("bench", "--rows", "cnn-64 f32 latency", "--peer", str(self.root / "bin/peer"))
        self.assertIn("it printed no times", results["bench", "cnn-64 f32 latency", "peer eager"]["why"])

    def test_a_python_with_torch_is_found_and_takes_several_rows_a_call(self):
        (self.root / "torch.py").write_text("__version__ = '9.9'")
        (self.root / "rows.py").write_text("import json, sys\n" + "for i in range(1 + sys.argv.count(':')):\n"
                                           "    print(json.dumps({'row': i, 'median_ms': i + 1.0, 'p10_ms': 1, 'p90_ms': 1, 'peak_mib': 1}))\n")
        session, sent = self.session()
        os.environ["PYTHONPATH"] = str(self.root)
        self.addCleanup(os.environ.pop, "PYTHONPATH")
        parts.find_torch(session)
        found = next(each["found"] for each in sent if "found" in each)
        self.assertTrue(found["torch"][-1].endswith("torch_steps.py"))
        options = argparse.Namespace(peer=None, found={"torch": [sys.executable, str(self.root / "rows.py")]}, device="cuda", quick=True, rows="cnn", rounds=1,
                                     bin=self.root / "bin")
        steps.bench(session, options)
        times = {(each["name"], each.get("program")): each.get("median_ms") for each in sent if each.get("part") == "bench"}
        self.assertEqual(times["cnn-2 f32 latency", "peer eager"], 1)
        self.assertEqual(times["cnn-2 bf16 latency", "peer channels-last"], 3)

    def test_a_part_that_ends_early_leaves_its_time_to_those_after_it(self):
        planned = figures.schedule(figures.PLANS["ten"][0], 0, 575)
        self.assertEqual([name for name, *_ in planned][1:], figures.TEN)
        self.assertAlmostEqual(planned[-1][2], 575)
        untils = [until for *_, until in planned]
        self.assertEqual(untils, sorted(untils))

    def test_a_page_of_nothing_is_a_page(self):
        (self.root / "empty").write_text("")
        self.assertIn("# dlrun on a GPU", summary.page(summary.read([self.root / "empty"])))


if __name__ == "__main__":
    unittest.main()
