#!/usr/bin/env python3
"""Records what a client of PyTorch's TCPStore and PyTorch's own server say to each other.

    record.py PYTHON [--no-libuv] > torch-2.8-libuv.txt

By hand, with the Python of each PyTorch that is to be replayed (torch_store_replay_test.cc). The clients are
processes of their own, as some calls of PyTorch wait with the interpreter's lock. Each line is one piece of
one connection as it passed: `C 1 HEX` from client 1, `S 1 HEX` from the server to it.
"""
import socket, subprocess, sys, threading

python, libuv = sys.argv[1], "--no-libuv" not in sys.argv
seen = threading.Condition()
lines = []

CLIENT = f"""
import datetime, sys, torch
from torch.distributed import TCPStore
def seconds(n): return datetime.timedelta(seconds=n)
def connect(port, **options):
    return TCPStore("127.0.0.1", port, is_master=False, timeout=seconds(60), use_libuv={libuv}, **options)
def fails(call):
    try: call()
    except Exception: return True
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class Client:
    def __init__(self):
        self.process = subprocess.Popen([python, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self, line):
        print(line, file=self.process.stdin, flush=True)

    def end(self):
        said = []
        while (line := self.process.stdout.readline().rstrip()) != "done":
            if not line and self.process.poll() is not None:
                raise SystemExit("a client failed")
            said.append(line)
        return "".join(said)

    def do(self, line):
        self.begin(line)
        return self.end()

    def has(self, name):
        return self.do(f"print(hasattr(store, {name!r}))") == "True"


def pump(source, target, mark, number):
    while data := source.recv(1 << 16):
        with seen:
            lines.append(f"{mark} {number} {data.hex()}")
            seen.notify_all()
        target.sendall(data)


def proxy(port):
    door = socket.create_server(("127.0.0.1", 0))

    def accept():
        number = 0
        while True:
            client, _ = door.accept()
            number += 1
            server = socket.create_connection(("127.0.0.1", port))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=pump, args=(client, server, "C", number), daemon=True).start()
            threading.Thread(target=pump, args=(server, client, "S", number), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return door.getsockname()[1]


a, b = Client(), Client()
version = a.do("print(torch.__version__)")
a.do(f"server = TCPStore('127.0.0.1', 0, None, True, seconds(60), wait_for_workers=False, use_libuv={libuv})")
port = proxy(int(a.do("print(server.port)")))
for client in (a, b):
    client.do(f"store = connect({port}, wait_for_workers=False)")


def while_waiting(call, key, *then):
    """`call` waits in b; when the server has been asked for the key, a does the rest."""
    begin = len(lines)
    b.begin(call)
    with seen:
        seen.wait_for(lambda: any(key.encode().hex() in line for line in lines[begin:]))
    for line in then:
        a.do(line)
    b.end()


a.do("store.set('one', '1')")
if a.has("list_keys"):
    a.do("assert store.list_keys() == ['one']")
b.do("assert store.get('one') == b'1' and store.num_keys() == 1")
a.do("assert store.add('count', 5) == 5 and store.add('count', -7) == -2 and store.add('one', 41) == 42")
a.do("assert store.check(['one', 'count']) and not store.check(['one', 'none'])")
a.do("assert store.compare_set('new', '', 'x') == b'x' and store.compare_set('new', 'y', 'z') == b'x'")
a.do("assert store.compare_set('new', 'x', 'z') == b'z' and store.compare_set('absent', 'y', 'z') == b'y'")
a.do("store.append('new', '-more'); store.append('fresh', 'begun')")
a.do("assert store.get('new') == b'z-more' and store.get('fresh') == b'begun'")
a.do("store.multi_set(['k1', 'k2', 'k3'], ['v1', '', 'v3' * 1000])")
a.do("assert store.multi_get(['k3', 'k2', 'k1']) == [b'v3' * 1000, b'', b'v1']")
a.do("assert store.delete_key('k1') and not store.delete_key('k1')")
a.do("store.wait(['one', 'new'])")
while_waiting("store.wait(['late', 'later'])", "/later", "store.set('later', '1')", "store.set('late', '2')")
while_waiting("assert store.get('got') == b'value'", "/got", "store.set('got', 'value')")
while_waiting("store.wait(['sum'])", "/sum", "store.add('sum', 1)")
b.do("assert fails(lambda: store.wait(['never'], datetime.timedelta(milliseconds=50)))")
a.do("store.set('never', 'now')")
a.do("assert store.get('never') == b'now'")
if libuv and a.has("queue_push"):
    a.do("store.queue_push('queue', 'first'); store.queue_push('queue', 'second')")
    a.do("assert store.queue_len('queue') == 2 and store.queue_len('none') == 0")
    a.do("assert store.queue_pop('queue') == b'first' and store.check(['queue'])")
    a.do("assert store.queue_pop('queue') == b'second' and not store.check(['queue'])")
    while_waiting("assert store.queue_pop('queue') == b'third'", "/queue", "store.queue_push('queue', 'third')")
    if a.do("print('block' in store.queue_pop.__doc__)") == "True":
        b.do("assert fails(lambda: store.queue_pop('queue', False))")
if a.has("barrier"):
    while_waiting("store.barrier('meet', 2)", "/meet", "store.barrier('meet', 2)")
    b.do("assert fails(lambda: store.barrier('alone', 2, datetime.timedelta(milliseconds=50)))")
if a.has("clone"):
    a.do("assert store.clone().get('one') == b'42'")
b.do(f"other = connect({port}, world_size=3)")  # counts itself in
a.do("print(store.num_keys())")

with seen:
    print(f"# torch {version}, {'libuv' if libuv else 'old'} server")
    print("\n".join(lines))
for client in (a, b):
    client.process.stdin.close()
    client.process.wait()
