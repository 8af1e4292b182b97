"""results.jsonl of one call or several as a page for docs/benchmarks. Of runs with the same name the last one counts, but times of
steps are medians over all rounds."""
import json
import statistics
import time


def read(paths):
    for path in paths:
        with open(path) as file:
            yield from (json.loads(line) for line in file if line.strip())


def table(head, lines):
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in [head, ["---"] * len(head), *lines]) + "\n"


def number(value):
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def ratio(peer, ours):
    return f"{peer / ours:.2f} x" if peer and ours else ""


def steps_table(results):
    rows, peaks, why = {}, {}, {}
    for r in results:
        if r["status"] == "ok":
            rows.setdefault(r["name"], {}).setdefault(r["program"], []).append(r["median_ms"])
            peaks.setdefault(r["name"], {})[r["program"]] = r["peak_mib"]
        elif r["status"] == "failed":
            why[f"{r['name']}, {r['program']}"] = r["why"]
    lines = []
    for name, programs in rows.items():
        ms = {program: statistics.median(times) for program, times in programs.items()}
        eager, captured = ms.get("ours eager"), ms.get("ours captured")
        peer_eager = min((ms[p] for p in ("peer eager", "peer channels-last") if p in ms), default=None)
        others = {p: t for p, t in ms.items() if p.startswith("peer ") and p not in ("peer eager", "peer channels-last")}
        best = min(others, key=others.get, default=None)
        lines.append([name, number(eager), number(captured), number(ms.get("peer eager")), number(ms.get("peer channels-last")),
                      f"{number(others[best])} ({best[5:]})" if best else "", ratio(peer_eager, eager), ratio(eager, captured),
                      ratio(others.get(best), captured), f"{peaks[name].get('ours eager', 0):.0f} / {peaks[name].get('peer eager', 0):.0f}"])
    text = table(["step", "ours, ms", "captured", "peer eager", "channels-last", "best compiled", "peer's eager / ours", "eager / captured",
                  "compiled / captured", "peak MiB, ours / peer"], lines) if lines else ""
    return text + "".join(f"\n- {name}: {reason}" for name, reason in why.items())


def nccl_table(results):
    lines = []
    for result in results:
        for r in result.get("rows", []):
            lines.append([r["bytes"], "in place" if r.get("in_place") else "out of place", r["backend"], number(r["p50_us"]), number(r.get("bare_us")),
                          number(r["p50_us"] - r["bare_us"]) if r.get("bare_us") is not None else "", number(r.get("host_us")), number(r.get("call_us"))])
    return table(["bytes", "where", "over", "p50, us", "bare", "more", "by the host's clock", "call"], lines) if lines else ""


HIDDEN = ("part", "name", "status", "at", "command", "rows", "losses", "why", "program")


def plain_table(results):
    last = {}
    for r in results:
        last[r["name"]] = r
    return table(["what", "", "found", "why"], [[r["name"], r["status"], ", ".join(f"{key.replace('_', ' ')} {number(value)}" for key, value in r.items()
                                                                             if key not in HIDDEN), r.get("why", "").replace("|", "/")]
                                                for r in last.values()])


def page(paths):
    results = list(read(paths))
    by_part = {}
    for r in results:
        by_part.setdefault(r["part"], []).append(r)
    day = time.strftime("%Y-%m-%d", time.gmtime(results[0]["at"] if results else None))
    text = f"# dlrun on a GPU, {day}\n"
    for part, these in by_part.items():
        if part in ("bench", "compile"):
            continue
        text += f"\n## {part}\n\n{plain_table(these)}"
        if part == "nccl":
            text += "\n" + nccl_table(these)
    steps = by_part.get("bench", []) + by_part.get("compile", [])
    if steps:
        text += f"\n## Training steps\n\n{steps_table(steps)}\n"
    commands = {}
    for r in results:
        if "command" in r:
            commands.setdefault(r.get("program", r["part"]), r["command"] if isinstance(r["command"], str) else " ".join(r["command"]))
    if commands:
        text += "\nCommands, the first of each kind; results.jsonl has all:\n\n" + "".join(f"    {each}\n" for each in commands.values())
    late = [f"{r['part']}: {r['name']}" for r in results if r["status"] == "late"]
    if late:
        text += f"\nNo time was left for: {'; '.join(dict.fromkeys(late))}.\n"
    return text
