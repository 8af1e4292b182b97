#!/usr/bin/env python3
"""docs/figures: the committed pictures and numbers are what the rows give, a change of either is found, and a terminal is read as it looks."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs/figures"))
import chart
import figures
import terminal


def shown(stream):
    screen = terminal.Screen()
    screen.feed(stream)
    return screen.text()


class Committed(unittest.TestCase):
    def test_files_are_what_rows_and_transcripts_give(self):
        self.assertEqual(list(figures.problems(figures.made())), [])

    def test_a_number_that_the_rows_do_not_give_is_found(self):
        files = figures.made()
        for claim in figures.claims():
            changed = {**files, figures.README: files[figures.README].replace(claim.split()[0], "more")}
            self.assertIn(repr(claim), " ".join(figures.problems(changed)))

    def test_a_picture_of_another_transcript_is_found(self):
        files = figures.made()
        picture = figures.FIGURES / "demo.svg"
        files[picture] = files[picture].replace("98.35", "99.35")
        self.assertIn("demo.svg is not what", " ".join(figures.problems(files)))

    def test_a_picture_needs_nothing_from_outside(self):
        files = figures.made()
        picture = figures.FIGURES / "demo.svg"
        files[picture] = files[picture].replace("<rect", '<image href="https://example.org/a.png"/><rect', 1)
        self.assertIn("demo.svg needs something from outside", " ".join(figures.problems(files)))


class Terminal(unittest.TestCase):
    def test_a_bar_is_written_over(self):
        self.assertEqual(shown("epoch 1 [==>  ]\r\x1b[Kepoch 1 done\r\nepoch 2"), "epoch 1 done\nepoch 2")

    def test_a_shorter_text_leaves_the_rest_of_the_line(self):
        self.assertEqual(shown("abcdef\rxy"), "xycdef")

    def test_a_return_in_a_wrapped_line_stays_in_its_last_row(self):
        self.assertEqual(shown("a" * 100 + "bcd\rxy"), "a" * 100 + "xyd")

    def test_an_unknown_escape_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "does not know"):
            shown("\x1b[31mred")

    def test_long_lines_are_wrapped_and_markup_is_text(self):
        picture = terminal.draw("$ x\n" + "a" * 99 + "<&\n", "t")
        self.assertIn("a" * 99 + "&lt;</text>", picture)
        self.assertIn(">&amp;</text>", picture)


class Numbers(unittest.TestCase):
    def test_times_have_three_digits_and_two_below_one(self):
        self.assertEqual([figures.time_text(ms) for ms in (0.01, 0.54, 4.81, 57, 85.94, 3057.3)],
                         ["0.010 ms", "0.54 ms", "4.81 ms", "57.0 ms", "85.9 ms", "3.06 s"])

    def test_labels_keep_their_distance_and_order(self):
        places = chart.spread([10, 11, 12, 90], 16)
        self.assertTrue(all(b - a > 15.9 for a, b in zip(places, places[1:])))
        self.assertEqual(places[-1], 90)


if __name__ == "__main__":
    unittest.main()
