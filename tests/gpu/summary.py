"""results.jsonl of one call or several as a page for docs/benchmarks. Of runs with the same name the last one counts, but times of
steps are medians over all rounds."""
import contextlib
import json
import statistics
import time

HIDDEN = ("part", "name", "status", "at", "command", "rows", "losses", "why", "program")
WHOLE = "the part"  # the name of a part's own result
CALL = "call"  # the part of the results that say how figures.py was called


def read(paths):
    """What lines hold a result; one that a full disk has cut is left out."""
    found = []
    for path in paths:
        with open(path, errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    result = json.loads(line)
                    if isinstance(result, dict) and {"part", "name", "status"} <= result.keys():
                        found.append(result)
    return found


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
        elif r["status"] in ("failed", "skipped"):
            why[f"{r['name']}, {r['program']}"] = text_of(r["why"])
    lines = []
    for name, programs in rows.items():
        ms = {program: statistics.median(times) for program, times in programs.items()}
        eager, captured = ms.get("ours eager"), ms.get("ours captured")
        peer_eager = min((ms[p] for p in ("peer eager", "peer channels-last") if p in ms), default=None)
        others = {p: t for p, t in ms.items() if p.startswith("peer ") and p not in ("peer eager", "peer channels-last")}
        best = min(others, key=others.get, default=None)
        lines.append([name, number(eager), number(captured), number(ms.get("peer eager")), number(ms.get("peer channels-last")),
                      f"{number(others[best])} ({best[5:]})" if best else "", ratio(peer_eager, eager), ratio(peer_eager, captured),
                      ratio(others.get(best), captured), f"{peaks[name].get('ours eager', 0):.0f} / {peaks[name].get('peer eager', 0):.0f}"])
    text = table(["step", "ours, ms", "captured", "peer eager", "channels-last", "best compiled", "peer's eager / ours", "/ captured",
                  "compiled / captured", "peak MiB, ours / peer"], lines) if lines else ""
    return text + "".join(f"\n- {name}: {reason}" for name, reason in why.items())


def nccl_table(results):
    lines = []
    for result in results:
        for r in result.get("rows", []):
            lines.append([r["bytes"], "in place" if r.get("in_place") else "out of place", r["backend"], number(r["p50_us"]), number(r.get("bare_us")),
                          number(r["p50_us"] - r["bare_us"]) if r.get("bare_us") is not None else "", number(r.get("host_us")), number(r.get("call_us"))])
    return table(["bytes", "where", "over", "p50, us", "bare", "more", "by the host's clock", "call"], lines) if lines else ""


def text_of(reason):
    return " ".join(str(reason).split()).replace("|", "/")


def plain_table(results):
    return table(["what", "", "found", "why"], [[r["name"], r["status"], ", ".join(f"{key.replace('_', ' ')} {number(value)}" for key, value in r.items()
                                                                             if key not in HIDDEN), text_of(r.get("why", ""))] for r in results])


def last_of_each(results):
    return list({(r["part"], r["name"], r.get("program")): r for r in results}.values())


def full_name(r):
    return ", ".join(each for each in (f"{r['part']}: {r['name']}", r.get("program")) if each)


def overview(by_part):
    """A line a part: how many of its runs ended how, and what the part took of its limit."""
    lines = []
    for part, results in by_part.items():
        whole = next((r for r in results if r["name"] == WHOLE), {})
        counts = {status: sum(r["status"] == status for r in results if r is not whole) for status in ("ok", "failed", "skipped", "late")}
        if whole.get("status") in ("failed", "late"):
            counts[whole["status"]] += 1
        lines.append([part, *(count or "" for count in counts.values()), number(whole.get("seconds")), number(whole.get("limit"))])
    return table(["part", "passed", "failed", "skipped", "no time", "seconds", "of at most"], lines) if lines else ""


def page(results):
    day = time.strftime("%Y-%m-%d", time.gmtime(results[0].get("at") if results else None))
    text = f"# dlrun on a GPU, {day}\n"
    last = last_of_each(results)
    gpus = [f"{r.get('model')} (driver {r.get('driver_version')}, {r.get('memory.total')})" for r in last if r["name"].startswith("GPU ")]
    hosts = [f"{r.get('cpus')} CPUs of {r.get('cpu')}, Linux {r.get('kernel')}" for r in last if (r["part"], r["name"]) == ("machine", "host")]
    versions = [r["versions"] for r in last if r.get("versions")]
    if gpus or hosts:
        text += "\n" + "; ".join([*gpus, *hosts, *versions]) + ".\n"
    for r in results:
        if r["part"] == CALL:
            text += f"\n    {r['command']}    # {time.strftime('%H:%M', time.gmtime(r['at']))} UTC, at most {number(r['budget'])} s\n"
    by_part = {}
    for r in last:
        if r["part"] != CALL:
            by_part.setdefault(r["part"], []).append(r)
    if by_part:
        text += f"\n{overview(by_part)}"
    failed = [f"- {full_name(r)}: {text_of(r.get('why', 'see its table'))}\n" for r in last if r["status"] == "failed"]
    if failed:
        text += f"\n## What failed\n\n{''.join(failed)}"
    for part, these in by_part.items():
        plain = [r for r in these if r["name"] != WHOLE and "program" not in r]
        if plain:
            text += f"\n## {part}\n\n{plain_table(plain)}"
        if part == "nccl":
            text += "\n" + nccl_table(these)
    steps = [r for r in results if r.get("program")]
    if steps:
        text += f"\n## Training steps\n\n{steps_table(steps)}\n"
    commands = {}
    for r in results:
        if "command" in r and r["part"] != CALL:
            commands.setdefault(r.get("program", r["part"]), r["command"] if isinstance(r["command"], str) else " ".join(r["command"]))
    if commands:
        text += "\nCommands, the first of each kind; results.jsonl has all:\n\n" + "".join(f"    {each}\n" for each in commands.values())
    late = [full_name(r) for r in last if r["status"] == "late"]
    if late:
        text += f"\nNo time was left for: {'; '.join(late)}.\n"
    return text
