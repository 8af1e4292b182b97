"""Runs the parts of figures.py, each in a process of its own that is ended at its limit, and keeps what they have found.

The parts only send; this side alone writes results.jsonl, the page and standard output. So whatever hangs, is killed or fills the disk,
what was found before is kept.
"""
import contextlib
import json
import os
import select
import signal
import sys
import time

import summary
from runner import Session, adopt_orphans, die_with_parent, end_children


class Keeper:
    """`reserve`: seconds that are kept for ending what hangs at the last part's limit, and for the page."""

    def __init__(self, folder, reserve=10.0):
        self.reserve = reserve
        self.results_path, self.page_path = os.path.join(folder, "results.jsonl"), os.path.join(folder, "summary.md")
        self.log = os.path.join(folder, "log.txt")
        self.begin = time.monotonic()
        self.results = summary.read([self.results_path]) if os.path.exists(self.results_path) else []
        self.found = {}
        self.failed, self.torn, self.patience = 0, False, 1.0
        self.errors = set()

    def write(self, record):
        """At once, as one line. After a line that a full disk has cut, the next one begins anew."""
        data = (("\n" if self.torn else "") + json.dumps(record) + "\n").encode()
        file = None
        try:
            file = os.open(self.results_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            while data:
                data = data[os.write(file, data):]
                self.torn = bool(data)
        except OSError as error:
            self.cannot(self.results_path, error)
        finally:
            if file is not None:
                os.close(file)

    def cannot(self, path, error):
        if path not in self.errors:
            self.errors.add(path)
            self.say(f"error: {path}: {error.strerror}; what it lacks is only printed")

    def say(self, text):
        """A reader that does not read must not hold up anything."""
        data = (text + "\n").encode(errors="replace")
        with contextlib.suppress(OSError, ValueError):
            while data:
                if not select.select([], [sys.stdout.fileno()], [], self.patience)[1]:
                    self.patience = 0
                    return
                data = data[os.write(sys.stdout.fileno(), data[:select.PIPE_BUF]):]

    def note(self, part, name, status, **figures):
        self.hear({"part": part, "name": name, "status": status, "at": round(time.time()), **figures})

    def hear(self, message):
        if "say" in message:
            return self.say(message["say"])
        if "found" in message:
            return self.found.update(message["found"])
        self.results.append(message)
        self.write(message)
        self.failed += message["status"] == "failed"
        hidden = ("part", "name", "status", "at", "command", "rows", "losses", "object")
        text = ", ".join(f"{key} {value:.5g}" if isinstance(value, float) else f"{key} {value}" for key, value in message.items() if key not in hidden)
        self.say(f"[{time.monotonic() - self.begin:4.0f} s] {message['part']}: {message['name']}: {message['status']}{', ' if text else ''}{text}")
        return None

    def page(self):
        """Writes it anew, and returns it."""
        text = summary.page(self.results)
        try:
            with open(self.page_path + ".new", "w") as file:
                file.write(text)
            os.replace(self.page_path + ".new", self.page_path)
        except OSError as error:
            self.cannot(self.page_path, error)
            with contextlib.suppress(OSError):
                os.unlink(self.page_path + ".new")
        return text


class Stop:
    """SIGINT, SIGTERM and SIGHUP end what runs; the page is still written."""

    def __init__(self):
        self.signal = None
        self.wake, self.woken = os.pipe()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.hear)

    def hear(self, number, _):
        self.signal = number
        os.write(self.woken, b".")


def lines_of(pipe, stop, until):
    """What comes before `until`, a signal, or the end of the writer."""
    rest = b""
    while (left := until - time.monotonic()) > 0 and stop.signal is None:
        ready, _, _ = select.select([pipe, stop.wake], [], [], left)
        data = os.read(pipe, 1 << 16) if pipe in ready else None
        if data == b"":
            return
        *lines, rest = (rest + (data or b"")).split(b"\n")
        yield from lines


def run_part(keeper, stop, name, part, options, until):
    """Ends with what it started at `until` or a little later. What is wrong with the part itself is noted."""
    begin = time.monotonic()
    limit = until - begin
    if limit < 1 or stop.signal is not None:
        return keeper.note(name, summary.WHOLE, "late", why="no time was left" if stop.signal is None else "gpu-figures was ended")
    adopt_orphans()
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        in_child(name, part, options, until, writable, keeper.log)
    os.close(writable)
    grace = keeper.reserve / 5  # after its limit a part may end by itself
    for line in lines_of(readable, stop, until + grace):
        keeper.hear(json.loads(line))
    os.close(readable)
    seconds = time.monotonic() - begin
    hung = seconds >= limit + grace
    code = None
    with contextlib.suppress(OSError):
        if hung or stop.signal is not None:
            os.kill(pid, signal.SIGKILL)
        for _ in range(int(20 * keeper.reserve)):  # its end of the pipe is closed: it ends, if the kernel lets it
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.01)
    end_children(keeper.reserve / 2)
    figures = {"seconds": round(seconds, 1), "limit": round(limit, 1)}
    if stop.signal is not None:
        keeper.note(name, summary.WHOLE, "late", why="gpu-figures was ended", **figures)
    elif hung:
        keeper.note(name, summary.WHOLE, "failed", why=f"hung: it was not over after {seconds:.0f} s and was ended", **figures)
    elif code:
        keeper.note(name, summary.WHOLE, "failed", why=f"its process ended with {code}", **figures)
    else:
        keeper.note(name, summary.WHOLE, "ok", **figures)
    return None


def in_child(name, part, options, until, pipe, log):
    """Never returns."""
    die_with_parent()
    adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)

    def send(message):
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(pipe, data):]

    try:
        try:
            part(Session(send, until, log), options)
        except Exception as error:  # a mistake in one part must not cost the others
            send({"part": name, "name": "the part itself", "status": "failed", "at": round(time.time()), "why": f"{type(error).__name__}: {error}"})
        end_children()
        os._exit(0)
    finally:
        os._exit(1)
