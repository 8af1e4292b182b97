#!/usr/bin/env python3
"""Draws latency and bus bandwidth over size from what dlbench --json, compare.py and other programs with its keys have printed.

    collectives/bench/plot.py today.jsonl before=last_week.jsonl "Open MPI=mpi.jsonl" > page.html

Every file is a series for each backend, place and kind of memory in it; NAME= names it, else it is called after the file. Where a file has several
rounds, a point is their median and a band shows the least and the most. The page needs nothing else: no script, no font, no network.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
from xml.sax.saxutils import escape

# Okabe and Ito's colours, which differ also for the colour-blind; dashes tell the ninth series from the first.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c00")
DASHES = ("none", "7 4", "2 3")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 620, 400, 78, 18, 42, 56
CHARTS = (("Latency", "p50_us", "us, p50 of the slowest rank; lower is better"), ("Bus bandwidth", "busbw", "GB/s; higher is better"))


def read(label, path):
    """Yields (panel, series, bytes, row) of every row that has figures. A panel is (op, ranks, dtype)."""
    for line in open(path, errors="replace"):
        try:
            row = json.loads(line[line.index("{"):], strict=False)
        except ValueError:
            continue
        if not row.get("bytes") or row.get("wrong") or "op" not in row:
            continue
        parts = [label, row["name"] if "name" in row else row.get("backend", "")]
        if "in_place" in row and "algorithm" in row:  # ours has both places
            parts.append("in place" if row["in_place"] else "out of place")
        if row.get("symmetric"):
            parts.append("symmetric memory")
        if "barrier" not in row.get("method", "barrier") or "," in row.get("method", ""):
            parts.append(row["method"])
        # `floor` belongs to all_reduce.
        op = "all_reduce" if row["op"] == "floor" else row["op"]
        yield (op, row.get("ranks", 0), row.get("dtype", "f32")), ", ".join(p for p in parts if p), row["bytes"], row


def collect(files):
    """{panel: {series: {bytes: [rows]}}}"""
    panels = {}
    for text in files:
        label, path = text.split("=", 1) if "=" in text else (pathlib.Path(text).stem, text)
        for panel, series, size, row in read(label, path):
            panels.setdefault(panel, {}).setdefault(series, {}).setdefault(size, []).append(row)
    return panels


def size_text(size):
    for shift, unit in ((30, "G"), (20, "M"), (10, "K")):
        if size >= 1 << shift:
            return f"{size / (1 << shift):g}{unit}"
    return f"{size:g}"


class Axis:
    """A logarithmic axis from `low` to `high`, drawn from `start` to `end`."""

    def __init__(self, low, high, start, end):
        self.low, self.high = math.log10(low), math.log10(high)
        if self.high == self.low:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self.start, self.end = start, end

    def at(self, value):
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)


def text(x, y, words, anchor="middle", size=12, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{more}>{escape(words)}</text>'


def line(x1, y1, x2, y2, colour="#e2e2e2"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def ticks_of_sizes(low, high):
    exponents = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    step = max(1, math.ceil(len(exponents) / 9))
    return [1 << e for e in exponents][::step] or [low]


def chart(title, key, unit, series, style):
    points = {name: {size: [row[key] for row in rows if row.get(key)] for size, rows in sizes.items()} for name, sizes in series.items()}
    values = [v for sizes in points.values() for found in sizes.values() for v in found]
    if not values:
        return ""
    sizes = [size for found in points.values() for size, v in found.items() if v]
    x = Axis(min(sizes), max(sizes), LEFT, WIDTH - RIGHT)
    y = Axis(10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)) + 1e-9), HEIGHT - BOTTOM, TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
           text(LEFT, 20, title, "start", 15, ' font-weight="bold"'), text(LEFT, 36, unit, "start", 11, ' fill="#555"')]
    for exponent in range(round(y.low), round(y.high) + 1):
        out.append(line(LEFT, y.at(10 ** exponent), WIDTH - RIGHT, y.at(10 ** exponent)))
        out.append(text(LEFT - 8, y.at(10 ** exponent) + 4, f"{10.0 ** exponent:,.10g}", "end"))
    for size in ticks_of_sizes(min(sizes), max(sizes)):
        out.append(line(x.at(size), TOP, x.at(size), HEIGHT - BOTTOM))
        out.append(text(x.at(size), HEIGHT - BOTTOM + 18, size_text(size)))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "bytes"))
    for name, found in points.items():
        colour, dash = style[name]
        known = sorted((size, v) for size, v in found.items() if v)
        if any(len(v) > 1 for _, v in known):
            edge = [(size, max(v)) for size, v in known] + [(size, min(v)) for size, v in reversed(known)]
            out.append(f'<polygon points="{" ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in edge)}" fill="{colour}" opacity="0.12"/>')
        middle = [(x.at(size), y.at(statistics.median(v))) for size, v in known]
        out.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in middle)}" fill="none" stroke="{colour}" stroke-width="2" '
                   f'stroke-dasharray="{dash}"/>')
        for (a, b), (size, v) in zip(middle, known):
            out.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"><title>{escape(name)}, {size_text(size)}: '
                       f'{statistics.median(v):.4g}</title></circle>')
    return "\n".join(out) + "\n</svg>"


def page(panels, title):
    out = [f'<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head><meta charset="utf-8"/><title>{escape(title)}</title>',
           "<style>body{font:15px system-ui,sans-serif;margin:24px;max-width:1320px;color:#222} svg{width:100%;font-family:inherit}",
           ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(480px,1fr));gap:16px} ul{list-style:none;padding:0;columns:2}",
           f"li svg{{width:44px;height:12px;vertical-align:middle;margin-right:8px}}</style></head><body><h1>{escape(title)}</h1>"]
    for (op, ranks, dtype), series in sorted(panels.items()):
        style = {name: (COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]) for i, name in enumerate(series)}
        out.append(f"<h2>{escape(op)}, {ranks} ranks, {escape(dtype)}</h2><ul>")
        for name, (colour, dash) in style.items():
            out.append(f'<li><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 44 12"><line x1="0" y1="6" x2="44" y2="6" stroke="{colour}" '
                       f'stroke-width="3" stroke-dasharray="{dash}"/></svg>{escape(name)}</li>')
        out.append('</ul><div class="charts">')
        out += [chart(*which, series, style) for which in CHARTS]
        out.append("</div>")
    return "\n".join(out) + "\n</body></html>"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", nargs="+", metavar="[NAME=]FILE")
    p.add_argument("--title", default="Collectives")
    p.add_argument("-o", "--output", help="a file instead of the standard output")
    a = p.parse_args()
    try:
        panels = collect(a.files)
    except OSError as error:
        sys.exit(f"plot.py: {error.filename}: {error.strerror}")
    if not panels:
        sys.exit("plot.py: none of the files has a row with figures")
    made = page(panels, a.title)
    if a.output:
        try:
            pathlib.Path(a.output).write_text(made + "\n")
        except OSError as error:
            sys.exit(f"plot.py: {a.output}: {error.strerror}")
    else:
        print(made)


if __name__ == "__main__":
    main()
