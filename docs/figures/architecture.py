#!/usr/bin/env python3
"""Makes the two drawings of docs/architecture.md: processes.svg and rooms.svg.

    docs/figures/architecture.py            # writes both
    docs/figures/architecture.py --check    # fails if the committed drawings differ, or if the rooms are not those of the tree

Rooms and arrows of rooms.svg are held against the folders and tests/layering/rooms.txt.
"""
import html
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# A colour a role: of the border and the title, and of the ground, on light and on dark pages.
COLOURS = {
    "launcher": ("#0072b2", "#eaf4fb", "#56b4e9", "#10222f"),
    "rendezvous": ("#8250a8", "#f5effa", "#c59be8", "#231a2d"),
    "collectives": ("#00805d", "#e8f6f1", "#33c79b", "#0d2720"),
    "nn": ("#b35900", "#fdf2e6", "#f0a35e", "#2c1f10"),
    "core": ("#59636e", "#f3f5f7", "#9da7b3", "#1a2029"),
}
FONT = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif"
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"


class Drawing:
    def __init__(self, title, width, height):
        self.title, self.width, self.height, self.parts = title, width, height, []

    def rect(self, x, y, w, h, kind, r=8, extra=""):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{r}" class="{kind}"{extra}/>')

    def text(self, x, y, text, kind="ink", size=13, weight="", anchor="start", mono=False):
        font = f' font-family="{MONO}"' if mono else ""
        bold = f' font-weight="{weight}"' if weight else ""
        self.parts.append(f'<text x="{x}" y="{y}" class="{kind}" font-size="{size}" text-anchor="{anchor}"{bold}{font}>'
                          f"{html.escape(text, quote=False)}</text>")

    def heading(self, x, y, title, rest, size=17, kind="ink", mono=True, rest_size=13, title_mono=False):
        """A title and, behind it, what is set smaller; one text, as the widths of fonts differ."""
        font = f' font-family="{MONO}"'
        self.parts.append(f'<text x="{x}" y="{y}" class="{kind}" font-size="{size}" font-weight="600"{font if title_mono else ""}>{title}'
                          f'<tspan class="soft" dx="12" font-size="{rest_size}" font-weight="400" font-family="{MONO if mono else FONT}">'
                          f"{html.escape(rest, quote=False)}</tspan></text>")

    def line(self, points, kind, dashed=False, both=False, arrow=True, width=1.6):
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        marks = (f' marker-end="url(#{kind})"' if arrow else "") + (f' marker-start="url(#{kind}-back)"' if both else "")
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<path d="{path}" class="{kind}-line" stroke-width="{width}"{dash}{marks}/>')

    def box(self, x, y, w, h, kind, name, lines=(), mono=True):
        """A box with its name and lines of small text, centred."""
        self.rect(x, y, w, h, kind)
        step = 15
        top = y + h / 2 - len(lines) * step / 2 + 5
        self.text(x + w / 2, top, name, f"{kind}-ink", 13.5, "600", "middle", mono)
        for i, line in enumerate(lines):
            self.text(x + w / 2, top + step * (i + 1), line, "soft", 11.5, anchor="middle")

    def svg(self):
        light, dark, marks = [], [], []
        for kind, (border, ground, dark_border, dark_ground) in COLOURS.items():
            for styles, b, g in ((light, border, ground), (dark, dark_border, dark_ground)):
                styles.append(f".{kind}{{fill:{g};stroke:{b};stroke-width:1.3}}.{kind}-ink{{fill:{b}}}"
                              f".{kind}-line{{stroke:{b};fill:none}}.{kind}-head{{fill:{b}}}")
            for suffix, orient in (("", "auto"), ("-back", "auto-start-reverse")):
                marks.append(f'<marker id="{kind}{suffix}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
                             f' markerUnits="userSpaceOnUse" orient="{orient}"><path d="M0 0L8 4L0 8z" class="{kind}-head"/></marker>')
        paper = ".paper{fill:#ffffff;stroke:#d1d9e0}.ink{fill:#1f2328}.soft{fill:#59636e}.node{fill:none;stroke:#afb8c1;stroke-dasharray:3 3}"
        paper_dark = ".paper{fill:#0d1117;stroke:#30363d}.ink{fill:#e6edf3}.soft{fill:#9da7b3}.node{fill:none;stroke:#484f58;stroke-dasharray:3 3}"
        style = paper + "".join(light) + "@media (prefers-color-scheme:dark){" + paper_dark + "".join(dark) + "}"
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
                f' height="{self.height}" role="img" aria-label="{html.escape(self.title)}" font-family="{FONT}">')
        return "\n".join([head, f"<title>{html.escape(self.title)}</title>", f"<style>{style}</style>",
                          "<defs>" + "".join(marks) + "</defs>",
                          f'<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="9" class="paper"/>',
                          *self.parts, "</svg>", ""])


def processes():
    d = Drawing("The processes of a job on one node, on two nodes, and on hosts reached by ssh", 900, 858)

    # One node
    d.heading(28, 36, "One node", "dlrun --nproc-per-node 3 ./train")
    y = 64
    d.box(30, y, 150, 96, "launcher", "dlrun", ["options, plan, output,", "signals, first cause,", "exit code"])
    d.box(250, y, 130, 96, "launcher", "warden", ["forked first; sweeps", "what a generation", "leaves behind"])
    d.box(450, y, 130, 96, "launcher", "supervisor", ["one a generation;", "starts, signals and", "reaps the ranks"])
    for i in range(3):
        d.box(660, y - 10 + i * 40, 110, 34, "nn", f"rank {i}")
    d.line([(180, y + 30), (248, y + 30)], "launcher")
    d.line([(380, y + 30), (448, y + 30)], "launcher")
    d.text(214, y + 24, "forks", "soft", 11, anchor="middle")
    d.text(414, y + 24, "forks", "soft", 11, anchor="middle")
    for i in range(3):
        d.line([(580, y + 30 if i == 0 else y + 47 if i == 1 else y + 64), (658, y + 7 + i * 40)], "launcher")
    # ranks between themselves
    d.line([(772, y + 7), (802, y + 7), (802, y + 87), (772, y + 87)], "collectives", both=True, width=2.4)
    d.line([(802, y + 47), (772, y + 47)], "collectives", width=2.4)
    d.text(812, y + 42, "shared", "collectives-ink", 11.5)
    d.text(812, y + 57, "memory", "collectives-ink", 11.5)
    # lifelines
    d.line([(715, y + 106), (715, y + 132), (105, y + 132), (105, y + 98)], "nn", dashed=True)
    d.text(500, y + 126, "of each rank: its lifeline, stdout and stderr", "soft", 11.5, anchor="middle")
    d.box(212, y + 156, 206, 50, "rendezvous", "dlrun-rendezvous", ["the store, from its first use on"])
    d.line([(315, y + 96), (315, y + 154)], "launcher")
    d.text(322, y + 116, "starts", "soft", 11)
    d.line([(420, y + 181), (735, y + 181), (735, y + 108)], "rendezvous", both=True)
    d.text(577, y + 175, "addresses of the ranks (gRPC)", "soft", 11.5, anchor="middle")

    # Two nodes
    top = 300
    d.line([(28, top), (872, top)], "core", arrow=False, width=0.6)
    d.heading(28, top + 32, "Several nodes", "dlrun --nnodes 2 --rdzv-endpoint node0 --nproc-per-node 2 ./train   (on each)")
    for n in range(2):
        x, y = 28 + n * 434, top + 50
        d.rect(x, y, 410, 262, "node", 9)
        d.text(x + 12, y + 20, f"node {n}", "soft", 12.5, "600")
        d.box(x + 14, y + 34, 118, 66, "launcher", "dlrun", ["the same page,", "the same exit code"])
        d.box(x + 152, y + 34, 86, 66, "launcher", "warden")
        d.box(x + 258, y + 34, 98, 66, "launcher", "supervisor")
        d.line([(x + 132, y + 67), (x + 150, y + 67)], "launcher")
        d.line([(x + 238, y + 67), (x + 256, y + 67)], "launcher")
        for i in range(2):
            d.box(x + 240 + i * 84, y + 128, 74, 36, "nn", f"rank {n * 2 + i}")
            d.line([(x + 307, y + 100), (x + 277 + i * 84, y + 126)], "launcher")
        d.line([(x + 238, y + 146), (x + 73, y + 146), (x + 73, y + 102)], "nn", dashed=True)
        d.text(x + 160, y + 140, "lifelines", "soft", 11.5, anchor="middle")
        d.line([(x + 195, y + 100), (x + 195, y + 124)], "launcher", arrow=False)
        d.line([(x + 195, y + 124), (x + 120, y + 124), (x + 120, y + 196)], "launcher")
        d.box(x + 14, y + 198, 212, 50, "rendezvous", "dlrun-rendezvous",
              ["bridge; service: store, first cause" if n == 0 else "bridge to node 0's service"])
        d.line([(x + 40, y + 102), (x + 40, y + 196)], "rendezvous", both=True)
        d.text(x + 46, y + 170, "JSON", "soft", 11)
    y = top + 50
    # between nodes
    d.line([(28 + 277, y + 166), (28 + 277, y + 182), (462 + 361, y + 182), (462 + 361, y + 166)], "collectives", both=True, width=2.4)
    d.line([(28 + 361, y + 182), (28 + 361, y + 166)], "collectives", width=2.4)
    d.line([(462 + 277, y + 182), (462 + 277, y + 166)], "collectives", width=2.4)
    d.text(300, y + 198, "TCP between nodes,", "collectives-ink", 11.5)
    d.text(300, y + 212, "shared memory inside", "collectives-ink", 11.5)
    d.line([(28 + 228, y + 229), (462 + 12, y + 229)], "rendezvous", both=True)
    d.text(346, y + 246, "who takes part (gRPC)", "soft", 11.5, anchor="middle")

    # Hosts by ssh
    top = 634
    d.line([(28, top), (872, top)], "core", arrow=False, width=0.6)
    d.heading(28, top + 32, "Hosts by ssh", "dlrun --hosts a:2,b:2 ./train")
    y = top + 52
    d.box(30, y, 128, 64, "launcher", "dlrun", ["frontend: terminal,", "page, exit code"])
    for i, host in enumerate("ab"):
        hy = y - 4 + i * 76
        d.rect(318, hy, 554, 66, "node", 9)
        d.text(330, hy + 19, f"host {host}", "soft", 12.5, "600")
        d.box(386, hy + 10, 150, 46, "launcher", "dlrun", ["agent of this host"])
        d.text(704, hy + 30, "warden, supervisor, ranks and", "soft", 12, anchor="middle")
        d.text(704, hy + 46, "dlrun-rendezvous, as above", "soft", 12, anchor="middle")
        d.line([(536, hy + 33), (608, hy + 33)], "launcher")
        if i == 0:
            d.line([(158, y + 29), (384, hy + 33)], "launcher", both=True)
        else:
            d.line([(158, y + 46), (236, y + 46), (236, hy + 33), (384, hy + 33)], "launcher", both=True)
    d.text(236, y + 22, "orders, events, output", "soft", 11.5, anchor="middle")
    d.text(28, 842, "Boxes are processes. A solid blue arrow: who starts whom, or, with two heads, a connection by ssh.", "soft", 11.5)
    return d


# Rooms: name, and what is in them, as they stand in the drawing.
ROOMS = {
    "launcher": [("cli", "options, help"), ("plan", "who runs where"), ("bind", "cores, NUMA"), ("process", "warden, ranks"),
                 ("agent", "a node's part"), ("frontend", "the user's dlrun"), ("nodes", "link to others"), ("remote", "hosts by ssh"),
                 ("slurm", "allocations"), ("srun", "SLURM's tasks"), ("output", "lines, logs"), ("verdict", "the last page"),
                 ("autopsy", "why it hangs"), ("topo", "what a host is"), ("doctor", "before a job"), ("jobs", "ps and kill"), ("preempt", "save and end"), ("pmi", "ranks of an MPI"), ("torch_store", "PyTorch's store")],
    "nn": [("include", "dlrun.h"), ("models", "whole networks"), ("layers", "Conv2d, Linear"), ("functional", "their functions"),
           ("module", "trees, state"), ("optim", "SGD, schedulers"), ("parallel", "DDP"), ("data", "loaders, images"),
           ("serialize", ".pth, safetensors"), ("checkpoint", "save, resume"), ("amp", "GradScaler"), ("compile", "compiled steps"), ("onnx", "for others"), ("text", "tokens"), ("utils", "clip, prune")],
    "collectives": [("init", "ranks meet"), ("bench", "dlbench"), ("c", "interface for C"), ("python", "the package"), ("tensor", "for Tensors"), ("device", "CPU or GPU"),
                    ("hybrid", "shm and tcp"), ("shm", "one node"), ("tcp", "any nodes"), ("nccl", "GPUs"), ("mpi", "over an MPI"),
                    ("join", "new groups"), ("solo", "one rank"), ("compose", "from others"), ("api", "ProcessGroup"), ("algorithms", "schedules"),
                    ("waiting", "Work, causes"), ("process", "peers, exit"), ("reduce", "arithmetic"), ("call", "one call"), ("record", "recorder")],
    "rendezvous": [("first_cause", "who is to blame"), ("net", "sockets, keys"), ("membership", "who takes part"), ("stores", "keys, files"),
                   ("service", "what nodes join"), ("grpc", "client and host"), ("module", "what ranks open"), ("program", "its program")],
    "core": [("ops", "checks, gradients"), ("autograd", "backward"), ("kernels", "cpu, cuda"), ("autocast", "mixed precision"),
             ("random", "PyTorch's numbers"), ("args", "options of ops"), ("tensor", "Tensor, dtypes"), ("memory", "allocators"),
             ("device", "threads, streams"), ("profiler", "profiles, traces"), ("elementwise", "list of formulas"), ("reductions", "list of sums, ..."),
             ("tape", "record, replay"), ("base", "errors, env, system")],
}
TOP = ["launcher", "nn", "collectives", "rendezvous", "core", "examples"]
# Who may include whom: the arrows between the top rooms.
ARROWS = {("launcher", "rendezvous"), ("launcher", "collectives"), ("launcher", "core"), ("nn", "collectives"), ("nn", "core"),
          ("collectives", "rendezvous"), ("collectives", "core"), ("rendezvous", "core"), ("examples", "nn"),
          ("examples", "collectives"), ("examples", "core")}


def rooms():
    d = Drawing("The rooms of the source tree, and who may include whom", 900, 968)
    d.heading(28, 36, "Who may include whom", "an arrow points at what is included; there is no other way between two rooms", mono=False)

    def room(name, x, y, w, h, columns, gloss):
        d.rect(x, y, w, h, name, 10)
        d.heading(x + 14, y + 22, name + "/", gloss, 15, f"{name}-ink", False, 12, True)
        cell = (w - 20) / columns
        row = min(42, (h - 43) / -(-len(ROOMS[name]) // columns))
        up = (42 - row) / 2
        for i, (child, what) in enumerate(ROOMS[name]):
            cx, cy = x + 10 + (i % columns) * cell, round(y + 34 + (i // columns) * row, 1)
            d.rect(round(cx + 3, 1), cy, round(cell - 6, 1), round(row - 4, 1), "paper", 5)
            d.text(round(cx + cell / 2, 1), round(cy + 16 - up / 2, 1), child, "ink", 12.5, "600", "middle", mono=True)
            d.text(round(cx + cell / 2, 1), round(cy + 31 - up * 1.5, 1), what, "soft", 11, anchor="middle")

    d.rect(366, 56, 482, 34, "core", 10)
    d.heading(380, 78, "examples/", "train_cnn, benchmarks, programs of books", 15, "core-ink", False, 12, True)
    room("launcher", 36, 56, 262, 380, 2, "dlrun itself")
    room("nn", 366, 124, 482, 170, 4, "the training library")
    room("collectives", 366, 338, 482, 212, 5, "all_reduce and its family")
    room("rendezvous", 36, 486, 262, 212, 2, "where nodes meet")
    room("core", 36, 752, 812, 170, 5, "tensors, autograd, and what all others use")

    # One family of operations on three floors.
    d.rect(478, 566, 370, 140, "node", 9)
    d.text(490, 587, "in core: a family of operations has a folder on each floor", "soft", 12)
    d.box(568, 598, 190, 38, "core", "ops/softmax", ["checks, dispatch, gradient"])
    d.box(488, 656, 168, 38, "core", "kernels/cpu/softmax", [])
    d.box(668, 656, 170, 38, "core", "kernels/cuda/softmax", [])
    d.line([(640, 636), (600, 654)], "core")
    d.line([(686, 636), (726, 654)], "core")

    d.line([(607, 90), (607, 122)], "core")
    d.line([(848, 73), (886, 73), (886, 806), (850, 806)], "core")
    d.line([(886, 400), (850, 400)], "core")
    d.line([(607, 294), (607, 336)], "nn")
    d.text(616, 320, "parallel, include", "nn-ink", 12)
    d.line([(848, 209), (868, 209), (868, 790), (850, 790)], "nn")
    d.line([(298, 390), (364, 390)], "launcher")
    d.text(331, 384, "record", "launcher-ink", 12, anchor="middle")
    d.line([(167, 436), (167, 484)], "launcher")
    d.text(176, 465, "net, first_cause, numbers", "launcher-ink", 12)
    d.line([(36, 246), (18, 246), (18, 806), (34, 806)], "launcher")
    d.text(23, 732, "base", "launcher-ink", 12)
    d.line([(167, 698), (167, 750)], "rendezvous")
    d.text(176, 729, "base", "rendezvous-ink", 12)
    d.line([(400, 550), (400, 600), (300, 600)], "collectives")
    d.text(308, 618, "net, store.h;", "collectives-ink", 12)
    d.text(308, 634, "init, c: all", "collectives-ink", 12)
    d.line([(440, 550), (440, 750)], "collectives")
    d.text(449, 730, "base, device, profiler, dtypes; tensor: all", "collectives-ink", 12)
    d.text(28, 948, "Within a room there are arrows of the same kind: tests/layering/rooms.txt has them all, and a test holds every #include"
           " against it.", "soft", 12)
    return d


def allowed():
    """The pairs of top rooms of which one may include the other, by tests/layering/rooms.txt."""
    named, pairs = {}, set()
    for line in (ROOT / "tests/layering/rooms.txt").read_text().splitlines():
        if line.startswith("#") or ":" not in line:
            continue
        room, seen = line.split(":", 1)
        words = [w for word in seen.split() for w in named.get(word, [word])]
        if room.startswith("@"):
            named[room] = words
        else:
            pairs |= {(room.split("/")[0], word.split("/")[0]) for word in words}
    return {pair for pair in pairs if pair[0] != pair[1]}


def faults():
    """What rooms.svg says and the tree does not, or the other way round."""
    found = []
    for room, children in ROOMS.items():
        there = {p.name for p in (ROOT / room).iterdir() if p.is_dir()}
        drawn = {name for name, _ in children}
        found += [f"{room}/{name} is drawn and does not exist" for name in sorted(drawn - there)]
        found += [f"{room}/{name} is not drawn" for name in sorted(there - drawn)]
    found += [f"the arrow from {a} to {b} is drawn, and rooms.txt has none" for a, b in sorted(ARROWS - allowed())]
    found += [f"rooms.txt lets {a} include {b}, and no arrow is drawn" for a, b in sorted(allowed() - ARROWS)]
    return found


def main():
    bad = faults()
    for drawing, name in ((processes(), "processes.svg"), (rooms(), "rooms.svg")):
        if "--check" not in sys.argv:
            (HERE / name).write_text(drawing.svg())
        elif (HERE / name).read_text() != drawing.svg():
            bad.append(f"docs/figures/{name} is not what docs/figures/architecture.py draws; run it")
    print("\n".join(f"architecture.py: {line}" for line in bad), file=sys.stderr, end="\n" if bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
