"""figures.py over programs that are made for the purpose: what it runs, what it makes of what they say, and that nothing stops it."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import parts  # noqa: E402
import runner  # noqa: E402
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
    "dlrun": 'shift 2; exec "$@"',
    "train_cnn": """case "$*" in *f16*) case "$*" in *bf16*) ;; *) echo "error: f16 is broken" >&2; exit 1 ;; esac ;; esac
accuracy=0.97
case "$*" in *--compile*) accuracy=0.6 ;; esac
for loss in 2 1 0; do echo "[rank 0] {\\"loss\\": $loss}"; done
echo "[rank 0] {\\"test_accuracy\\": $accuracy, \\"samples_per_s\\": 10}" """,
    "dlbench": """case "$*" in *--bare*) bare=5 ;; *) bare=null ;; esac
echo "{\\"op\\": \\"$1\\", \\"backend\\": \\"nccl\\", \\"bytes\\": 8, \\"p50_us\\": 12, \\"wrong\\": 0, \\"in_place\\": true, \\"bare_us\\": $bare}" """,
    "bench_train": """[ "$1" != mlp ] || sleep 60
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
        self.program("tests/cuda_ops_test", f"cat <<'END'\n{GTEST}END\n[ \"$1\" = --gtest_filter=Ops.Crash ]")
        done, results = self.figures("machine", "ops", "train", "ranks", "nccl", "sanitizer", "--quick", "--ranks", "1,2")
        self.assertEqual(done.returncode, 1, done.stderr)
        status = {key[:2]: r["status"] for key, r in results.items()}
        self.assertEqual(results["machine", "GPU 0", None]["model"], "NVIDIA H200")
        self.assertEqual(status["machine", "a first network on cuda"], "ok")
        ops = results["ops", "cuda_ops_test", None]
        self.assertEqual((ops["status"], ops["passed"], ops["failed"], ops["only_after_others"], ops["skipped"]), ("failed", 1, 1, 1, 1))
        self.assertEqual(status["train", "cpu"], "ok")
        self.assertEqual(status["train", "cuda bf16"], "ok")
        self.assertEqual(results["train", "cuda captured", None]["why"], "less than on the CPU")
        self.assertIn("f16 is broken", results["train", "cuda f16", None]["why"])
        self.assertEqual(status["ranks", "2 ranks, NCCL"], "ok")
        self.assertEqual(status["ranks", "broadcast -b 8 -e 4M -f 512, 2 ranks"], "ok")
        self.assertEqual(results["nccl", "all_reduce against bare ncclAllReduce, 1 ranks", None]["most_us_more"], 7)
        page = (self.root / "out/summary.md").read_text()
        self.assertIn("| cuda captured | failed |", page)
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
        self.assertIn(f"| {row} | 1 | 1 | 2 | 2 | 0.5 (reduce-overhead) | 2.00 x | 1.00 x | 0.50 x | 10 / 20 |", page)
        done, results = self.figures("bench", "--rows", "mlp-8", "--budget", "4")
        self.assertEqual(results["bench", "mlp-8 f32 latency", "ours eager"]["status"], "late")
        self.assertIn("No time was left for: bench: mlp-8", (self.root / "out/summary.md").read_text())
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

    def test_a_program_that_does_not_end_is_ended_with_its_children(self):
        session = runner.Session(str(self.root / "out"), 60)
        self.addCleanup(session.close)
        done = session.run(["sh", "-c", "sleep 300 & echo $!; wait"], 5)
        self.assertTrue(done.timed_out)
        self.assertIn("not over after", done.why())
        child = int(done.out)
        until = time.monotonic() + 60  # a signal takes a moment to end a process
        while self.runs(child) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(self.runs(child), child)
        self.assertEqual(session.run(["no such program"], 9).code, 127)

    def test_a_page_of_nothing_is_a_page(self):
        (self.root / "empty").write_text("")
        self.assertIn("# dlrun on a GPU", summary.page([self.root / "empty"]))


if __name__ == "__main__":
    unittest.main()
