"""Sessions in a terminal: runs commands in a pseudo terminal, keeps the text that it shows at the end, and draws that text as SVG.

A transcript is what the screen shows at the end, and a line that the terminal wraps is one line of it. The picture is made from the transcript alone,
so that `figures.py --check` needs no run. The words are the programs'; that typed lines and the first cause are bold, and ranks' lines grey, is the
picture's.
"""
import fcntl
import os
import pathlib
import pty
import select
import signal
import struct
import tempfile
import termios
import time
from xml.sax.saxutils import escape

COLUMNS = 100
PROMPT = "$ "
# What the pictures show instead of the name of the machine that made them.
HOST = "laptop"

# ---- recording ----------------------------------------------------------------------------------


class Screen:
    """What a terminal of COLUMNS columns shows of a stream that uses carriage returns and "erase to the end of the line" only."""

    def __init__(self):
        self.lines = [""]
        self.column = 0
        self.escape = ""

    def feed(self, text):
        for c in text:
            if self.escape or c == "\x1b":
                self.escape += c
                if self.escape == "\x1b[K":
                    self.lines[-1] = self.lines[-1][:self.column]
                    self.escape = ""
                elif not "\x1b[K".startswith(self.escape):
                    raise SystemExit(f"figures.py: the terminal got {self.escape!r}, which docs/figures/terminal.py does not know")
            elif c == "\r":
                # Of a line that was wrapped, the last row.
                self.column = max(0, len(self.lines[-1]) - 1) // COLUMNS * COLUMNS
            elif c == "\n":
                self.lines.append("")
                self.column = 0
            else:
                self.lines[-1] = self.lines[-1][:self.column].ljust(self.column) + c + self.lines[-1][self.column + 1:]
                self.column += 1

    def text(self):
        return "\n".join(line.rstrip() for line in self.lines)


class Session:
    """bash in a pseudo terminal, on a machine whose name is HOST, in an empty folder, with the programs of `programs` first in PATH."""

    def __init__(self, programs, folder):
        self.screen = Screen()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": folder, "TERM": "xterm", "LANG": "C.UTF-8", "PS1": PROMPT}
            # A host name of its own needs a UTS namespace; this needs a user namespace if this is not root.
            namespaces = ["--uts"] if os.geteuid() == 0 else ["--uts", "--map-root-user"]
            bash = f"hostname {HOST} && exec bash --norc --noprofile --noediting -i"
            os.execvpe("unshare", ["unshare", *namespaces, "sh", "-c", bash], environment)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))

    def wait_for(self, what, limit=120):
        """Until what(text on the screen) is true."""
        deadline = time.monotonic() + limit
        while not what(self.screen.text()):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                raise SystemExit(f"figures.py: after {limit} s the terminal shows\n{self.screen.text()}")
            try:
                read = os.read(self.terminal, 65536)
            except OSError:
                raise SystemExit(f"figures.py: the session has ended; the terminal shows\n{self.screen.text()}")
            self.screen.feed(read.decode(errors="replace"))

    def prompt(self):
        self.wait_for(lambda text: text.rsplit("\n", 1)[-1] == PROMPT.rstrip())

    def type(self, command):
        """Types the command at the next prompt, and returns when the terminal shows it."""
        self.prompt()
        os.write(self.terminal, command.encode() + b"\n")
        self.wait_for(lambda text: PROMPT + command + "\n" in text)

    def expect(self, words):
        """Waits for the end of the command, and fails if it has not written `words`: a picture of an accident is not wanted."""
        self.prompt()
        if words not in self.screen.text():
            raise SystemExit(f"figures.py: the terminal does not show {words!r} but\n{self.screen.text()}")

    def close(self):
        """The transcript, without the prompt behind the last command."""
        self.prompt()
        os.kill(self.pid, signal.SIGHUP)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)
        return self.screen.text().rsplit("\n", 1)[0].strip("\n") + "\n"


def is_below(process, ancestor):
    while process > 1 and process != ancestor:
        # Behind the name, which may hold anything: state and parent.
        process = int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process == ancestor


def process_of_rank(rank, session):
    """The process of the session that is `rank`."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            if f"RANK={rank}".encode() in variables and is_below(int(entry.name), session.pid):
                return int(entry.name)
        except OSError:  # it has ended, or belongs to another user
            continue
    raise SystemExit(f"figures.py: no process of the session is rank {rank}")


def record_demo(session):
    session.type("dlrun --nproc-per-node 2 train_cnn")
    session.expect("test accuracy")


def record_failure(session):
    session.type("dlrun --nproc-per-node 4 train_cnn")
    session.wait_for(lambda text: "epoch 4/15 [" in text)
    os.kill(process_of_rank(2, session), signal.SIGKILL)
    session.expect("was killed by signal 9 (SIGKILL)")
    session.type("echo $?")
    session.type("pgrep train_cnn")


SESSIONS = {"demo": record_demo, "failure": record_failure}


def record(name, programs):
    """The transcript of a session."""
    with tempfile.TemporaryDirectory() as folder:
        session = Session(programs, folder)
        SESSIONS[name](session)
        return session.close()


# ---- drawing ------------------------------------------------------------------------------------

FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
CHARACTER, ROW, SIZE = 8.4, 19, 14
LEFT, TOP, BOTTOM = 20, 52, 18
BACKGROUND, BORDER, PLAIN, RANKS, GREEN = "#0d1117", "#30363d", "#f0f6fc", "#9da7b3", "#56d364"


def style(line, first_of_page):
    """The fill and weight of a line that was typed, or written by dlrun or a rank."""
    if line.startswith(PROMPT):
        return PLAIN, "bold"
    if line.startswith("dlrun: "):
        return PLAIN, "bold" if first_of_page else "normal"
    return (RANKS if line.startswith("[rank ") else PLAIN), "normal"


def draw(transcript, title):
    rows = []
    before = ""
    for line in transcript.splitlines():
        how = style(line, not before.startswith("dlrun: "))
        rows += [(line[at:at + COLUMNS], how, at) for at in range(0, max(1, len(line)), COLUMNS)]
        before = line
    width, height = round(2 * LEFT + COLUMNS * CHARACTER), TOP + len(rows) * ROW + BOTTOM - 4
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
           f'aria-label="{escape(title)}" font-family="{FONT}" font-size="{SIZE}">',
           f"<title>{escape(title)}</title>",
           f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="9" fill="{BACKGROUND}" stroke="{BORDER}"/>']
    out += [f'<circle cx="{LEFT + 6 + 20 * i}" cy="22" r="6" fill="{colour}"/>' for i, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))]
    for number, (text, (fill, weight), at) in enumerate(rows):
        if not text:
            continue
        x, y = LEFT, TOP + number * ROW + SIZE - 2
        if at == 0 and text.startswith(PROMPT):
            out.append(f'<text x="{x}" y="{y}" fill="{GREEN}" font-weight="bold">$</text>')
            text, x = text[len(PROMPT):], x + len(PROMPT) * CHARACTER
        bold = f' font-weight="{weight}"' if weight != "normal" else ""
        # Every font gives a line the width of its characters' cells.
        out.append(f'<text x="{x:g}" y="{y}" fill="{fill}"{bold} xml:space="preserve" textLength="{len(text) * CHARACTER:.1f}" '
                   f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>')
    return "\n".join(out) + "\n</svg>\n"
