"""Whether other programs use the CPUs: then figures are not valid."""
import os
import time

CLOCK = os.sysconf("SC_CLK_TCK")


def _busy_and_total():
    fields = [int(x) for x in open("/proc/stat").readline().split()[1:9]]  # user nice system idle iowait irq softirq steal
    return sum(fields) - fields[3] - fields[4], sum(fields)


def _processes():
    """CPU ticks and name of every process, by pid."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            name, rest = open(f"/proc/{pid}/stat").read().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue  # gone
        fields = rest.split()
        found[pid] = (int(fields[11]) + int(fields[12]), name)
    return found


def look(seconds=0.5):
    """(share of all CPUs' time that was used, the processes that used most) over the next `seconds`; our own are not running."""
    busy, total = _busy_and_total()
    before = _processes()
    time.sleep(seconds)
    busy_after, total_after = _busy_and_total()
    used = {(ticks - before.get(pid, (0, ""))[0], f"{name} ({pid})") for pid, (ticks, name) in _processes().items() if pid != str(os.getpid())}
    names = [f"{name} {100 * ticks / CLOCK / seconds:.0f} %" for ticks, name in sorted(used, reverse=True)[:3] if ticks > 0]
    return (busy_after - busy) / max(total_after - total, 1), names


def wait_until_quiet(allowed, patience, say):
    """Waits at most `patience` seconds until others use at most `allowed` of the CPUs' time. Returns the share used at the end."""
    deadline = time.monotonic() + patience
    told = None
    while True:
        share, names = look()
        if share <= allowed:
            return share
        if time.monotonic() >= deadline:
            say(f"still {100 * share:.0f} % of the CPUs are in use after {patience:.0f} s: {', '.join(names) or 'no process of ours to see'}; this round counts as noisy")
            return share
        if told is None:
            say(f"waiting: {100 * share:.0f} % of the CPUs are in use: {', '.join(names) or 'by no process that can be seen'}")
            told = True
