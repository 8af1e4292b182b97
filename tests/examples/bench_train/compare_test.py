"""bench_train's compare.py, with programs that print given figures instead of measuring."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "examples/bench_train/compare.py"


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = pathlib.Path(self.folder.name)
        self.ours = self.program("ours", 'ms=10 mib=100')

    def tearDown(self):
        self.folder.cleanup()

    def program(self, name, figures):
        """Prints `ms` and `mib`, which its flags may change."""
        path = self.at / name
        path.write_text(f"""#!/bin/sh
{figures}
for flag; do
  case $flag in compile) ms=15 ;; --channels-last) ms=$((ms - 5)) ;; bf16) ms=12 mib=$((mib / 2)) ;; esac
done
echo '[rank 0] {{"median_ms":' $ms ', "peak_mib":' $mib '}}'
""")
        path.chmod(0o755)
        return str(path)

    def compare(self, *arguments):
        return subprocess.run([sys.executable, "-B", str(SCRIPT), "--ours", self.ours, "--rounds", "2", *arguments, "--", "cnn"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=150)

    def test_prints_ratios_and_peaks_and_keeps_every_run(self):
        kept = self.at / "kept"
        got = self.compare("--peer", f"theirs={self.program('theirs', 'ms=25 mib=300')}", "--keep", str(kept))
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn("middle: ours 10 ms; theirs 25 ms, ratio 2.500\n", got.stdout)
        self.assertIn("peak MiB: ours 100; theirs 300\n", got.stdout)
        self.assertNotIn("best", got.stdout)
        self.assertEqual([json.loads(line)["program"] for line in kept.read_text().splitlines()], ["ours", "theirs"] * 2)

    def test_takes_the_fastest_of_pytorchs_modes_in_each_precision(self):
        got = self.compare("--torch", self.program("torch", "ms=20 mib=400"), "--torch-modes", "eager,channels-last,compile-last,bf16,bf16-last")
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn("lowest: best is torch-compile-last, 10 ms, ratio 1.000\n", got.stdout)
        self.assertIn("lowest: best-bf16 is torch-bf16-last, 7 ms, ratio 0.700\n", got.stdout)
        self.assertIn("torch-eager 400; torch-channels-last 400; torch-compile-last 400; torch-bf16 200", got.stdout)

    def test_wrong_arguments_end_with_a_sentence(self):
        for wrong, sentence in (((), "there is no --peer and no --torch"), (("--torch", "x", "--torch-modes", "fast"), "--torch-modes: fast is none of eager"),
                                (("--peer", "ours=x"), "two programs are called ours"), (("--peer", "/no/such"), "/no/such: No such file")):
            got = self.compare(*wrong)
            self.assertIn(got.returncode, (1, 2))
            self.assertIn(sentence, got.stderr)
            self.assertNotIn("Traceback", got.stderr)


if __name__ == "__main__":
    unittest.main()
