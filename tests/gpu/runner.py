"""Runs programs under limits, for a part of figures.py, and passes on what was found.

A program writes into memory and not into pipes, so that nothing it leaves behind can delay its end. Its whole process group is ended
with it, and what has left the group when no other program runs.
"""
import contextlib
import ctypes
import json
import os
import shlex
import signal
import subprocess
import time

LOG_LIMIT = 15 << 20
MOST_OUTPUT = 64 << 20  # of one program
TAIL = 20  # lines of a failed run that are shown
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None)


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans():
    """Processes whose parents end become this one's children, so that it can end them."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_group(process):
    """Of a process that leads its session, with all that it started there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def children():
    me, found = str(os.getpid()), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            with open(f"/proc/{name}/stat") as file:
                if file.read().rpartition(")")[2].split()[1] == me:
                    found.append(int(name))
    return found


def end_children(seconds=5):
    """All of them, and theirs, which become ours; a process that the kernel does not end is left after these seconds."""
    until = time.monotonic() + seconds
    while (pids := children()) and time.monotonic() < until:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)


def start(command, out, err, environment=None):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, preexec_fn=die_with_parent,
                            env={**os.environ, **(environment or {})})


def objects_in(text):
    """The JSON objects among lines, also behind dlrun's prefix of a rank."""
    found = []
    for line in text.splitlines():
        begin = line.find("{")
        if begin >= 0:
            with contextlib.suppress(ValueError):
                found.append(json.loads(line[begin:]))
    return [each for each in found if isinstance(each, dict)]


class Run:
    """What became of a program. It is late if the session's time ended it, or was over before it began."""

    def __init__(self, code=None, out="", err="", seconds=0.0, timed_out=False, late=False):
        self.code, self.out, self.err, self.seconds, self.timed_out, self.late = code, out, err, seconds, timed_out, late

    @property
    def objects(self):
        return objects_in(self.out)

    def why(self):
        """The last line that says something, for a table."""
        if self.late:
            return f"no time was left after {self.seconds:.0f} s" if self.seconds else "no time was left"
        if self.timed_out:
            return f"not over after {self.seconds:.0f} s"
        lines = [line.strip() for line in (self.err + "\n" + self.out).splitlines() if line.strip()]
        errors = [line for line in lines if "rror" in line]
        return f"exit code {self.code}: {(errors or lines or ['nothing said'])[0][:300]}"


class Program:
    """A program that runs."""

    def __init__(self, command, environment, limit, left):
        self.command, self.environment = command, environment
        self.begin = time.monotonic()
        self.limit, self.is_late = min(limit, left), left < limit
        self.files = [os.fdopen(os.memfd_create(name), "rb") for name in ("out", "err")]
        self.process, self.error = None, ""
        try:
            self.process = start(command, *self.files, environment)
        except OSError as error:
            self.error = str(error)

    def result(self):
        """None while it runs. Ends it at its limit."""
        seconds = time.monotonic() - self.begin
        if self.process is None:
            return self.close(Run(127, "", self.error))
        code = self.process.poll()
        too_much = sum(os.fstat(file.fileno()).st_size for file in self.files) > MOST_OUTPUT
        timed_out = code is None and seconds >= self.limit
        if code is None and not timed_out and not too_much:
            return None
        end_group(self.process)
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel may not end a process that waits for a device
            self.process.wait(timeout=3)
        out, err = (self.text(file) for file in self.files)
        if code is None and too_much:
            err = f"error: ended, as it printed more than {MOST_OUTPUT >> 20} MiB\n"
        return self.close(Run(self.process.returncode, out, err, seconds, timed_out, timed_out and self.is_late))

    @staticmethod
    def text(file):
        file.seek(0)
        return file.read(MOST_OUTPUT).decode(errors="replace")

    def close(self, run):
        for file in self.files:
            file.close()
        return run


class Session:
    """A part's time, and the way to say what it found: `send` takes a dict."""

    def __init__(self, send, until, log):
        self.send, self.until, self.log = send, until, log

    def left(self):
        return self.until - time.monotonic()

    def note(self, part, name, status, **figures):
        """status: ok, failed, skipped, or late: there was no time for it."""
        self.send({"part": part, "name": name, "status": status, "at": round(time.time()), **figures})

    def run(self, command, limit, environment=None):
        return next(done for _, done in self.run_all([command], limit, environment))

    def run_all(self, commands, limit, environment=None, at_once=1):
        """(index, Run) of each as it ends, so many at a time."""
        waiting, running = list(enumerate(commands)), {}
        while waiting or running:
            while waiting and len(running) < at_once:
                index, command = waiting.pop(0)
                if self.left() < 1:
                    yield index, Run(late=True)
                else:
                    running[index] = Program(command, environment, limit, self.left())
            for index, program in list(running.items()):
                done = program.result()
                if done is not None:
                    del running[index]
                    if not running:
                        end_children()
                    self.keep(program, done)
                    yield index, done
            if running:
                time.sleep(0.02)

    def keep(self, program, done):
        variables = "".join(f"{key}={value} " for key, value in (program.environment or {}).items())
        with contextlib.suppress(OSError), open(self.log, "a") as log:  # a full disk costs the log, not the figures
            print(f"\n$ {variables}{shlex.join(program.command)}\n# {done.code} after {done.seconds:.1f} s", file=log)
            if log.tell() < LOG_LIMIT:
                log.write(done.out[-200_000:] + done.err[-200_000:])
        if done.code != 0:
            said = [line for line in (done.out + done.err).splitlines() if "{" not in line]
            for line in said[-TAIL:]:
                self.send({"say": f"    {line[:200]}"})
