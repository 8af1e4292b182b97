"""compare.py and plot.py, with programs that print given figures instead of measuring."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree

SCRIPTS = pathlib.Path(__file__).resolve().parents[3] / "collectives/bench"


def row(size, us, **more):
    return {"op": "all_reduce", "backend": "tcp", "ranks": 2, "bytes": size, "p50_us": us, "busbw": size / us / 1e3, "wrong": 0, **more}


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def run(script, *arguments):
    return subprocess.run([sys.executable, "-B", str(SCRIPTS / script), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=150)


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = pathlib.Path(self.folder.name)
        self.program("dlrun", [row(8, 10.0, in_place=True, algorithm="direct"), row(8, 99.0, in_place=False, algorithm="direct")])

    def tearDown(self):
        self.folder.cleanup()

    def program(self, name, rows, code=0, tail=""):
        path = self.at / name
        lines = "\n".join(f"[rank 0] {json.dumps(r)}" for r in rows)
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\n{tail}\nexit {code}\n")
        path.chmod(0o755)
        return path

    def compare(self, *arguments):
        return run("compare.py", "--bin", str(self.at), "--keep", str(self.at / "kept"), "--wait", "0", "--rounds", "2", *arguments)

    def test_wrong_arguments_end_with_a_sentence(self):
        for wrong, sentence in ((("--sizes", "x"), "--sizes x is not BEGIN"), (("--peer", "x"), "--peer x is not NAME=COMMAND"),
                                (("--peer", "x={what}"), "is not NAME=COMMAND"), (("--ranks", "0"), "at least 1"), (("--bin", "/no"), "there is no dlrun in /no"),
                                (("--keep", "/no/where"), "--keep /no/where: No such file")):
            got = self.compare(*wrong)
            self.assertIn(got.returncode, (1, 2))
            self.assertIn(sentence, got.stderr)
            self.assertNotIn("Traceback", got.stderr)
        got = self.compare("--rounds", "1", "--sizes", "8", "--peer", "theirs=/no/such/program")
        self.assertIn("theirs, all_reduce, 2 ranks, 8: No such file or directory: /no/such/program", got.stdout)
        got = run("plot.py", "/no/such/file")
        self.assertEqual((got.returncode, got.stderr), (1, "plot.py: /no/such/file: No such file or directory\n"))

    def test_prints_ratios_of_medians_and_minima_and_keeps_every_row(self):
        peer = self.program("peer", [row(8, 25.0, backend="MPI\tversion")])
        got = self.compare("--sizes", "8", "--peer", f"theirs={peer} {{op}} {{ranks}}")
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        self.assertEqual(got.stdout.count("      8 B |      10.00        |      25.00  2.50x"), 2, got.stdout)
        self.assertIn("medians of the rounds' p50", got.stdout)
        self.assertIn("minima of the rounds' p50", got.stdout)
        kept = [json.loads(line) for line in (self.at / "kept").read_text().splitlines()]
        self.assertIn("machine", kept[0])
        self.assertEqual([(r["round"], r["name"], r["p50_us"]) for r in kept[1:]],
                         [(n, name, us) for n in (1, 2) for name, us in (("dlrun", 10.0), ("dlrun", 99.0), ("theirs", 25.0))])

    def test_a_program_that_fails_loses_its_round_only(self):
        failing = self.program("failing", [], 3, "echo no such fabric")
        got = self.compare("--rounds", "1", "--sizes", "8", "--peer", f"failing={failing}")
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        self.assertIn("round 1: failing, all_reduce, 2 ranks, 8: exit code 3: no such fabric", got.stdout)
        self.assertIn("1 runs failed", got.stdout)

    def test_a_program_that_hangs_loses_its_round_only(self):
        hanging = self.program("hanging", [row(8, 20.0)], 0, f"sleep 600 & echo $! > {self.at}/pid; wait")
        got = self.compare("--rounds", "1", "--limit", "1", "--sizes", "8", "--peer", f"hanging={hanging}")
        # The limit is one of all programs: the machine may have kept ours from its end for as long.
        ours_late = int("round 1: dlrun, all_reduce, 2 ranks, 8: not over after 1 s" in got.stdout)
        self.assertEqual(got.returncode, ours_late, got.stdout + got.stderr)
        self.assertIn("round 1: hanging, all_reduce, 2 ranks, 8: not over after 1 s", got.stdout)
        self.assertIn(f"{1 + ours_late} runs failed", got.stdout)
        pid = self.at / "pid"
        if not pid.exists() or not pid.read_text():  # ended before it began to hang
            return
        deadline = time.monotonic() + 20
        while is_running(int(pid.read_text())) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(is_running(int(pid.read_text())))

    def test_wrong_results_of_ours_fail(self):
        self.program("dlrun", [row(8, 10.0, in_place=True, algorithm="direct") | {"wrong": 2}])
        got = self.compare("--rounds", "1", "--sizes", "8")
        self.assertEqual(got.returncode, 1, got.stdout + got.stderr)
        self.assertIn("wrong results", got.stdout)


class Plot(unittest.TestCase):
    def test_page_is_xml_with_every_series_and_label(self):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = pathlib.Path(folder, "ours.jsonl"), pathlib.Path(folder, "theirs.jsonl")
            rows = [row(size, us, in_place=True, algorithm="ring", symmetric=False) for size, us in ((8, 10), (8, 12), (1 << 20, 500), (1 << 26, 4e4))]
            ours.write_text("a line that is no JSON\n" + "\n".join(map(json.dumps, rows)))
            theirs.write_text("\n".join(map(json.dumps, [row(8, 300, backend="a <b> & c"), row(8, 1, wrong=3), row(1 << 26, 9e4, backend="a <b> & c")])))
            got = run("plot.py", str(ours), f"last week={theirs}", "--title", "today & before")
        self.assertEqual(got.returncode, 0, got.stderr)
        root = ElementTree.fromstring(got.stdout)
        svg = "{http://www.w3.org/2000/svg}"
        charts = [e for e in root.iter(svg + "svg") if e.get("role") == "img"]
        self.assertEqual([c.get("aria-label") for c in charts], ["Latency", "Bus bandwidth"])
        for chart in charts:
            self.assertEqual(len(chart.findall(svg + "polyline")), 2)
            words = [t.text for t in chart.iter(svg + "text")]
            self.assertIn("8", words)
            self.assertIn("bytes", words)
            for circle in chart.iter(svg + "circle"):
                self.assertTrue(0 < float(circle.get("cx")) < 620 and 0 < float(circle.get("cy")) < 400)
        words = "".join(root.itertext())
        self.assertIn("ours, tcp, in place", words)
        self.assertIn("last week, a <b> & c", words)
        self.assertIn("11", [t.text.rsplit(" ", 1)[1] for t in charts[0].iter(svg + "title")])  # the median of 10 and 12

    def test_files_without_figures_are_refused(self):
        self.assertNotEqual(run("plot.py", os.devnull).returncode, 0)


if __name__ == "__main__":
    unittest.main()
