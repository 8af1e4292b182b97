#!/usr/bin/env python3
"""unit_test.py BUILD SOURCE: the line of deploy/systemd's service, started as systemd starts it for its socket unit, serves two jobs in turn.

The descriptors from 3 on are those of the socket unit, in its order. Nodes that do not listen themselves meet there.
"""
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1])
units = pathlib.Path(sys.argv[2]) / "deploy/systemd"
socket_unit = (units / "dlrun-rendezvous@.socket").read_text()
service = (units / "dlrun-rendezvous@.service").read_text()
assert re.findall(r"^Listen\w+", socket_unit, re.M) == ["ListenStream", "ListenFIFO"], "the descriptors below are in another order"
line = shlex.split(re.search(r"^ExecStart=(.*)$", service, re.M).group(1).replace("%i", "fit"))
assert pathlib.PurePath(line[0]).name == "dlrun-rendezvous"
line[0] = build / "bin/dlrun-rendezvous"

# The guide gives another port to a second job: its lines list the same descriptors, as an empty one takes all back.
guide = (pathlib.Path(sys.argv[2]) / "docs/guides/containers.md").read_text()
drop_in = re.search(r"```\n\[Socket\]\n(.*?)```", guide, re.S).group(1).splitlines()
other_port = [line.replace("29400", "29401") for line in socket_unit.splitlines() if line.startswith("Listen")]
assert drop_in == ["ListenStream=", *other_port], drop_in

with tempfile.TemporaryDirectory() as folder:
    key = pathlib.Path(folder, "key")
    key.touch(mode=0o600)
    key.write_text("7" * 64)
    os.mkfifo(f"{folder}/fifo")
    environment = dict(os.environ, DLRUN_KEY_FILE=str(key), XDG_CONFIG_HOME=folder)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    fifo = os.open(f"{folder}/fifo", os.O_RDWR)
    # Above the numbers that they get, so that none takes the place of another.
    wanted = [os.dup(fd) for fd in (listener.fileno(), fifo)]
    high = [os.dup2(fd, 100 + fd) for fd in wanted]
    words = " ".join(shlex.quote(str(word)) for word in line)
    server = subprocess.Popen(["bash", "-c", f"exec 3<&{high[0]} 4<&{high[1]}; exec {words}"], env=environment, pass_fds=high, stdin=subprocess.DEVNULL)
    bad = []
    try:
        for job in (1, 2):
            nodes = [subprocess.Popen([build / "bin/dlrun", "--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-conf=is_host=false", "--rdzv-id=fit",
                                       f"--key-file={key}", build / "bin/rank_by_probe"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                     for _ in range(2)]
            said = "".join("".join(node.communicate(timeout=120)) for node in nodes)
            if any(node.returncode for node in nodes) or said.count(": right\n") != 2:
                bad.append(f"job {job} ended with {[node.returncode for node in nodes]}: {said}")
        if server.poll() is not None:
            bad.append(f"the service ended with {server.returncode}")
    finally:
        server.kill()
        server.wait()
print("\n".join(bad) or "two jobs met at the service")
sys.exit(1 if bad else 0)
