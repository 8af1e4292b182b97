"""Draws all_reduce next to its peers as SVG, from the rows in docs/benchmarks/data.

The picture has its own background and follows the reader's preference for light or dark, so that it reads well on any page.
"""
import collections
import json
import math
import statistics
from xml.sax.saxutils import escape

# Okabe and Ito's colours, which differ also for the colour-blind: on a light background, on a dark one, and the marker.
SERIES = {
    "dlrun": ("#0072b2", "#56b4e9", "circle"),
    "Open MPI": ("#c44e00", "#f08c4a", "square"),
    "MPICH": ("#00805d", "#33c79b", "triangle"),
    "Intel MPI": ("#a8558b", "#e29cc8", "diamond"),
    "Gloo": ("#946200", "#f0b429", "square"),
}
# Open MPI in three configurations; the figure shows, at each size, the fastest of them.
SAME = {"Open MPI han": "Open MPI", "Open MPI copy": "Open MPI"}
WIDTH, HEIGHT = 900, 452
TOP, BOTTOM = 106, 380
FONT = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif"


def read(path):
    """{series: {bytes: median time in us}} of the all_reduces in place of a file that compare.py kept; and the rounds of a size."""
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    rounds = set()
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row.get("op") != "all_reduce" or row.get("symmetric") or not row.get("in_place", True):
            continue
        times[row["name"]][row["bytes"]].append(row["p50_us"])
    medians = collections.defaultdict(dict)
    for name, sizes in times.items():
        for size, found in sizes.items():
            rounds.add(len(found))
            best = medians[SAME.get(name, name)]
            best[size] = min(best.get(size, math.inf), statistics.median(found))
    return medians, max(rounds)


def only(series, low, high):
    """The series with the sizes from `low` to `high` that dlrun has."""
    return {name: {size: t for size, t in sorted(times.items()) if low <= size <= high and size in series["dlrun"]} for name, times in series.items()}


def bandwidths(series):
    return {name: {size: size / t / 1e3 for size, t in times.items()} for name, times in series.items()}


def ahead(series, size):
    """How many times as long as dlrun the fastest peer takes."""
    return f"{min(times[size] for name, times in series.items() if name not in ('dlrun', 'floor')) / series['dlrun'][size]:.1f}"


def size_text(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def text(x, y, words, anchor="start", size=13, kind="ink", bold=False):
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" class="{kind}"{weight}>{escape(words)}</text>'


def marker(shape, x, y, kind):
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" class="{kind}"/>'
    corners = {"square": ((-3, -3), (3, -3), (3, 3), (-3, 3)), "triangle": ((0, -4), (3.8, 3), (-3.8, 3)),
               "diamond": ((0, -4.2), (4.2, 0), (0, 4.2), (-4.2, 0))}[shape]
    return f'<polygon points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in corners)}" class="{kind}"/>'


def spread(wanted, gap):
    """The places nearest to the wanted ones, which are in order, with `gap` between them."""
    places = list(wanted)
    for _ in range(100):
        for i in range(len(places) - 1):
            short = gap - (places[i + 1] - places[i])
            if short > 0.01:
                places[i] -= short / 2
                places[i + 1] += short / 2
    return places


def panel(left, right, title, unit, series, ticks_x, ticks_y, remark=None):
    """One diagram: sizes on a logarithmic axis, values on a linear one from 0. `remark`: a size of dlrun's line, and what to write beside it."""
    sizes = [size for times in series.values() for size in times]
    low, high = math.log2(min(sizes)), math.log2(max(sizes))
    at_x = lambda size: left + (math.log2(size) - low) / (high - low) * (right - left)
    at_y = lambda value: BOTTOM - value / ticks_y[-1] * (BOTTOM - TOP)
    out = [text(left, TOP - 32, title, size=14, bold=True), text(left, TOP - 14, unit, size=12, kind="soft")]
    for tick in ticks_y:
        out.append(f'<line x1="{left}" x2="{right}" y1="{at_y(tick):.1f}" y2="{at_y(tick):.1f}" class="{"axis" if tick == 0 else "grid"}"/>')
        out.append(text(left - 8, at_y(tick) + 4.5, f"{tick:g}", "end", 12, "soft"))
    for tick in ticks_x:
        out.append(f'<line x1="{at_x(tick):.1f}" x2="{at_x(tick):.1f}" y1="{BOTTOM}" y2="{BOTTOM + 5}" class="axis"/>')
        out.append(text(at_x(tick), BOTTOM + 20, size_text(tick), "middle", 12, "soft"))
    names = [name for name in SERIES if series.get(name)]
    for name in reversed(names):  # dlrun last, on top of the others
        kind = name.replace(" ", "")
        points = [(at_x(size), at_y(value)) for size, value in series[name].items()]
        out.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" class="line {kind}"/>')
        out += [marker(SERIES[name][2], x, y, kind) for x, y in points]
    if remark:
        size, words = remark
        out.append(text(at_x(size) + 9, at_y(series["dlrun"][size]) - 5, words, size=12, kind="soft"))
    ends = sorted((at_y(list(series[name].values())[-1]), name) for name in names)
    for place, (end, name) in zip(spread([y for y, _ in ends], 16), ends):
        out.append(f'<line x1="{right + 5}" y1="{end:.1f}" x2="{right + 12}" y2="{place:.1f}" class="lead {name.replace(" ", "")}"/>')
        out.append(text(right + 15, place + 4.5, name, size=13, kind=f"label {name.replace(' ', '')}", bold=name == "dlrun"))
    return out


def colours(dark):
    ink, soft, grid, axis, paper, border = (("#e6edf3", "#9da7b3", "#21262d", "#6e7681", "#0d1117", "#30363d") if dark else
                                            ("#1f2328", "#59636e", "#e6e9ed", "#848d97", "#ffffff", "#d1d9e0"))
    rules = [f".paper{{fill:{paper};stroke:{border}}}", f".ink{{fill:{ink}}}", f".soft{{fill:{soft}}}", f".grid{{stroke:{grid}}}",
             f".axis{{stroke:{axis}}}"]
    rules += [f".{name.replace(' ', '')}{{fill:{both[dark]};stroke:{both[dark]}}}" for name, both in SERIES.items()]
    return "".join(rules)


def draw(data, dark_first=False):
    """`dark_first`: the dark colours whatever the reader prefers, to look at them in a program that knows no preference."""
    small, small_rounds = read(data / "shm-small.jsonl")
    large, large_rounds = read(data / "shm-mpi.jsonl")
    tcp, tcp_rounds = read(data / "tcp-gloo-2.jsonl")
    title = "all_reduce between two processes of one machine, next to Open MPI, MPICH, Intel MPI and Gloo"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
           f'aria-label="{title}" font-family="{FONT}">', f"<title>{title}</title>",
           f"<style>{colours(dark_first)}.line{{fill:none;stroke-width:2;stroke-linejoin:round}}.line.dlrun{{stroke-width:3}}"
           f".lead{{stroke-width:1}}.label{{stroke:none}}@media (prefers-color-scheme:dark){{{colours(True)}"
           ".line{fill:none}.label{stroke:none}}</style>",
           f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="9" class="paper"/>',
           text(28, 36, "all_reduce: two processes on one machine, float32, in place", size=17, bold=True)]
    out += panel(52, 250, "Small, shared memory", "time in \u00b5s, lower is better", only(small, 8, 8 << 10), (8, 64, 512, 4096), (0, 1, 2, 3, 4, 5))
    out += panel(372, 590, "Large, shared memory", "GB/s, higher is better", bandwidths(only(large, 16 << 10, 64 << 20)),
                 (16 << 10, 128 << 10, 1 << 20, 8 << 20, 64 << 20), (0, 2, 4, 6, 8, 10, 12), (1 << 20, f"1 MiB: {ahead(large, 1 << 20)} x the best MPI"))
    out += panel(712, 830, "TCP over loopback", "GB/s, higher is better", bandwidths(only(tcp, 1 << 20, 64 << 20)), (1 << 20, 8 << 20, 64 << 20), (0, 1, 2, 3, 4), (1 << 20, f"1 MiB: {ahead(tcp, 1 << 20)} x Gloo"))
    heads = [json.loads((data / name).read_text().splitlines()[0]) for name in ("shm-small.jsonl", "shm-mpi.jsonl", "tcp-gloo-2.jsonl")]
    days = " and ".join(sorted({head["date"][:10] for head in heads}))
    machine = heads[0]["machine"].split(", Linux")[0]
    out.append(text(28, HEIGHT - 22, f"Medians of {small_rounds}, {large_rounds} and {tcp_rounds} rounds in turns; {machine}; {days}. "
                    "Open MPI: the best of three settings.", size=12, kind="soft"))
    return "\n".join(out) + "\n</svg>\n"
