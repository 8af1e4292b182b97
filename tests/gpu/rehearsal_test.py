"""rehearsal_test.py BUILD: `gpu-figures ten` and `four` with dlrun's programs, as a bundle has them, on the device that
DLRUN_MODULE_DIR names. No time is judged: what a slow machine has no time for may be late."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(HERE))

import figures  # noqa: E402
import steps  # noqa: E402
import summary  # noqa: E402
import training  # noqa: E402


class Rehearsal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("bin", "tests", "gpu"):
            (self.root / name).mkdir()
        for name in ("bin/dlrun", "bin/dlrun-rendezvous", "bin/dlbench", "bin/train_cnn", "bin/bench_train", "tests/cuda_ops_test"):
            if (BUILD / name).exists():
                (self.root / name).symlink_to(BUILD / name)
        (self.root / "share/dlrun/tests/parity").mkdir(parents=True)
        (self.root / "share/dlrun/tests/parity/arrays").symlink_to(HERE.parent / "parity/arrays")
        for path in HERE.glob("*.py"):
            shutil.copy(path, self.root / "gpu")

    def figures(self, plan, budget):
        """(what it found, its page)"""
        done = subprocess.run([sys.executable, "-B", str(self.root / "gpu/figures.py"), plan, "--quick", "--budget", str(budget), "--out", "found"],
                              capture_output=True, text=True, timeout=budget + 200, cwd=self.root, env={**os.environ, "GTEST_BRIEF": "1"})
        self.assertIn(done.returncode, (0, 1), done.stderr)
        page = (self.root / "found/summary.md").read_text()
        self.assertIn(page, done.stdout)
        results = summary.read([self.root / "found/results.jsonl"])
        names = figures.PLANS[plan][0]
        self.assertEqual([r["part"] for r in results if r["name"] == summary.WHOLE], ["setup", *names])
        for name in names:
            mine = [r for r in results if r["part"] == name]
            self.assertTrue(all(r["status"] == "ok" or r.get("why") for r in mine), mine)
            self.assertTrue(len(mine) > 1 or mine[0]["status"] != "ok", mine)  # it ran, or the line above has seen why not
            self.assertIn(f"\n| {name} | ", page)
        return results, page

    def test_ten_minutes(self):
        results, page = self.figures("ten", 240)
        # How soon a rank finds out that another was killed is a matter of time.
        self.assertEqual([r for r in results if r["status"] == "failed" and r["part"] != "kill"], [], page)
        late = {r["part"] for r in results if r["status"] == "late"}
        for part, heading in (("ops", "## ops"), ("networks", "## networks"), ("ranks", "## ranks"), ("bench", "## Training steps")):
            if part not in late:
                self.assertIn(heading, page)
        if "bench" not in late:
            self.assertRegex(page, r"\| cnn-2 bf16 latency \| [0-9.]+ \| [0-9.]+ \|")

    def test_four_minutes_with_a_program_that_does_not_end(self):
        program = self.root / "bin/train_cnn"
        program.unlink()
        program.write_text(f"#!/bin/sh\ntrap '' TERM INT HUP\nsetsid sleep 600 &\necho $! >>{self.root}/left\nsleep 600\n")
        program.chmod(0o755)
        results, page = self.figures("four", 20)
        self.assertEqual([r for r in results if r["part"] in ("train", "ranks") and r["status"] == "ok" and "accuracy" in r], [])
        self.assertIn("No time was left for: ", page)
        for part in ("machine", "networks", "bench"):  # before what hangs, and after it
            self.assertTrue({r["status"] for r in results if r["part"] == part} & {"ok", "late"}, page)
        for pid in (self.root / "left").read_text().split() if (self.root / "left").exists() else []:
            until = time.monotonic() + 60
            while os.path.exists(f"/proc/{pid}") and time.monotonic() < until:
                time.sleep(0.01)
            self.assertFalse(os.path.exists(f"/proc/{pid}"), pid)

    def test_bench_train_has_the_networks(self):
        said = subprocess.run([str(BUILD / "bin/bench_train"), "no network", "--device", "cpu"], capture_output=True, text=True, timeout=200)
        there = said.stderr.rpartition("there is: ")[2].split()
        for work, _ in training.NETWORKS + steps.WORKS + steps.QUICK_WORKS:
            self.assertIn(work, [each.strip(",") for each in there])


if __name__ == "__main__":
    unittest.main()
