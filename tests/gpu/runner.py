"""Runs programs under limits, keeps what they said, and writes one JSON object a run.

A Session has a budget of seconds: a run gets what is left of it at most, and where nothing is left it is noted as not run. Nothing a
program does ends the session.
"""
import contextlib
import json
import os
import shlex
import signal
import subprocess
import time

LOG_LIMIT = 15 << 20
TAIL = 20  # lines of a failed run that are shown


def objects_in(text):
    """The JSON objects among lines, also behind dlrun's prefix of a rank."""
    found = []
    for line in text.splitlines():
        start = line.find("{")
        if start >= 0:
            with contextlib.suppress(ValueError):
                found.append(json.loads(line[start:]))
    return found


def end_group(process):
    """Of a process that leads its session, with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Run:
    def __init__(self, code, out, err, seconds, timed_out):
        self.code, self.out, self.err, self.seconds, self.timed_out = code, out, err, seconds, timed_out

    @property
    def objects(self):
        return objects_in(self.out)

    def why(self):
        """The last line that says something, for a table."""
        if self.timed_out:
            return f"not over after {self.seconds:.0f} s"
        lines = [line.strip() for line in (self.err + "\n" + self.out).splitlines() if line.strip()]
        errors = [line for line in lines if "rror" in line]
        return f"exit code {self.code}: {(errors or lines or ['nothing said'])[0][:300]}"


class Session:
    def __init__(self, folder, budget):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.begin = time.monotonic()
        self.budget = budget
        self.results = open(os.path.join(folder, "results.jsonl"), "a")
        self.log = open(os.path.join(folder, "log.txt"), "a")
        self.failed = 0

    def close(self):
        self.results.close()
        self.log.close()

    def left(self):
        return self.budget - (time.monotonic() - self.begin)

    def note(self, part, name, status, **figures):
        """status: ok, failed, skipped, or late: there was no time for it."""
        json.dump({"part": part, "name": name, "status": status, "at": round(time.time()), **figures}, self.results)
        self.results.write("\n")
        self.results.flush()
        self.failed += status == "failed"
        shown = {key: value for key, value in figures.items() if key not in ("command", "rows", "losses", "object")}
        text = ", ".join(f"{key} {value:.5g}" if isinstance(value, float) else f"{key} {value}" for key, value in shown.items())
        print(f"[{time.monotonic() - self.begin:4.0f} s] {part}: {name}: {status}{', ' if text else ''}{text}", flush=True)

    def run(self, command, limit, environment=None):
        """None where there is no time for it."""
        asked = limit
        limit = min(asked, self.left())
        if limit < 2:
            return None
        begin = time.monotonic()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       errors="replace", start_new_session=True, env={**os.environ, **(environment or {})})
        except OSError as error:
            return Run(127, "", str(error), 0, False)
        timed_out = False
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            end_group(process)
            out, err = process.communicate()
        done = Run(process.returncode, out, err, time.monotonic() - begin, timed_out)
        self.keep(command, environment, done)
        return None if timed_out and limit < asked else done

    def keep(self, command, environment, done):
        variables = " ".join(f"{key}={value}" for key, value in (environment or {}).items())
        print(f"\n$ {variables} {shlex.join(command)}\n# {done.code} after {done.seconds:.1f} s", file=self.log)
        if self.log.tell() < LOG_LIMIT:
            self.log.write(done.out[-200_000:] + done.err[-200_000:])
        self.log.flush()
        if done.code != 0:
            said = [line for line in (done.out + done.err).splitlines() if "{" not in line]
            for line in said[-TAIL:]:
                print(f"    {line[:200]}", flush=True)
