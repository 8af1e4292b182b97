#!/usr/bin/env python3
"""Random sequences of all calls of torch.distributed.Store, against dlrun's agent store and PyTorch's own.

    dlrun --nproc-per-node 1 PYTHON compare.py [SECONDS] [SEED]

By hand, with each PyTorch. Every call is made on both stores, by clients that do the same; what they return or
raise must be the same. list_keys() has no order.
"""
import datetime, os, random, sys, threading, time

import torch
from torch.distributed import PrefixStore, TCPStore

assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True"
seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20
seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
rng = random.Random(seed)


def ms(n):
    return datetime.timedelta(milliseconds=n)


own = TCPStore("127.0.0.1", 0, None, True, ms(60000), wait_for_workers=False)
places = [(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), ("127.0.0.1", own.port)]


def connect():
    return [TCPStore(host, port, None, False, ms(60000), wait_for_workers=False) for host, port in places]


clients = [connect() for _ in range(4)]
if hasattr(TCPStore, "clone"):
    clients.append([store.clone() for store in clients[0]])
clients.append([PrefixStore("some/prefix", store) for store in clients[1]])

keys = [f"key{i}" for i in range(6)] + ["", "nul\0inside", "ü", "long" * 500]
numbers = ["n1", "n2"]
queues = ["q1", "q2"]
counts = {}


def value():
    size = rng.choice([0, 1, 5, 100, 5000, 70000])
    return rng.randbytes(size).hex()[:size]


def outcome(call, store):
    try:
        result = call(store)
        # Calls without an answer have now been carried out, also in the eyes of other clients.
        store.check(["fence"])
        return result
    except Exception as error:
        return type(error).__name__


def both(name, call, pair, normal=lambda x: x):
    counts[name] = counts.get(name, 0) + 1
    got = [normal(outcome(call, store)) for store in pair]
    if got[0] != got[1]:
        sys.exit(f"seed {seed}, call {sum(counts.values())}, {name}: dlrun gives {got[0]!r:.200}, PyTorch {got[1]!r:.200}")
    return got[0]


def while_waiting(name, wait, then):
    """`wait` in a thread for each store; `then` on both; both must end alike."""
    counts[name] = counts.get(name, 0) + 1
    results = {}
    pair = connect()

    def run(i):
        results[i] = outcome(wait, pair[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    if rng.random() < 0.5:
        time.sleep(rng.random() * 0.01)
    for store in clients[0]:
        outcome(then, store)
    for thread in threads:
        thread.join()
    if results[0] != results[1]:
        sys.exit(f"seed {seed}, {name}: dlrun gives {results[0]!r:.200}, PyTorch {results[1]!r:.200}")


fresh = 0
end = time.monotonic() + seconds
extra = ["append", "multi_get", "multi_set"]
have = lambda name: hasattr(TCPStore, name)
while time.monotonic() < end:
    pair = rng.choice(clients)
    key, other = rng.choice(keys), rng.choice(keys)
    several = rng.sample(keys, rng.randrange(1, 4))
    number, queue, text, text2 = rng.choice(numbers), rng.choice(queues), value(), value()
    by = rng.randrange(-1000, 1000)
    is_prefix = isinstance(pair[0], PrefixStore)
    what = rng.randrange(20)
    if what == 0:
        both("set", lambda s: s.set(key, text), pair)
    elif what == 1 and both("check", lambda s: s.check([key]), pair):
        both("get", lambda s: s.get(key), pair)
    elif what == 2:
        both("add", lambda s: s.add(number, by), pair)
        both("get", lambda s: s.get(number), pair)
    elif what == 3:
        expected = rng.choice(["", text2, "x"])
        now = both("compare_set", lambda s: s.compare_set(key, expected, text[:100]), pair)
        if isinstance(now, bytes) and len(now) < 200:
            both("compare_set", lambda s: s.compare_set(key, now, text2), pair)
    elif what == 4:
        both("check", lambda s: s.check(several), pair)
    elif what == 5:
        both("num_keys", lambda s: s.num_keys(), pair)
    elif what == 6:
        both("delete_key", lambda s: s.delete_key(key), pair)
    elif what == 7 and both("get before append", lambda s: s.check([key]) and len(s.get(key)) > 100000, pair) is False:
        both("append", lambda s: s.append(key, text[:1000]), pair)
    elif what == 8 and have("multi_get") and both("check", lambda s: s.check(several), pair):
        both("multi_get", lambda s: s.multi_get(several), pair)
    elif what == 9 and have("multi_set"):
        both("multi_set", lambda s: s.multi_set(several, [text] * len(several)), pair)
    elif what == 10:
        both("wait with timeout", lambda s: s.wait(several, ms(rng.choice([1, 3, 5]))) if not s.check(several) else None, pair)
    elif what == 11 and both("check", lambda s: s.check(several), pair):
        both("wait", lambda s: s.wait(several), pair)
    elif what == 12 and have("queue_push"):
        for _ in range(rng.randrange(1, 3)):
            both("queue_push", lambda s: s.queue_push(queue, text), pair)
    elif what == 13 and have("queue_push"):
        if both("queue_len", lambda s: s.queue_len(queue), pair) > 0:
            both("queue_pop", lambda s: s.queue_pop(queue), pair)
        elif "block" in (TCPStore.queue_pop.__doc__ or ""):
            both("queue_pop without block", lambda s: s.queue_pop(queue, False), pair)
    elif what == 14 and have("list_keys"):
        both("list_keys", lambda s: s.list_keys(), pair, lambda x: sorted(x) if isinstance(x, list) else x)
    elif what == 15:
        fresh += 1
        names = [f"fresh/{fresh}/a", f"fresh/{fresh}/b"]
        while_waiting("wait, then set", lambda s: s.wait(names), lambda s: (s.set(names[1], "1"), s.add(names[0], 2)))
    elif what == 16:
        fresh += 1
        name = f"fresh/{fresh}"
        while_waiting("get, then set", lambda s: s.get(name), lambda s: s.set(name, text))
    elif what == 17 and have("barrier"):
        fresh += 1
        name = f"barrier/{fresh}"
        both("barrier of one", lambda s: s.barrier(name, 1), pair)
        both("barrier timeout", lambda s: s.barrier(name + "/t", 2, ms(3)), pair)
    elif what == 18 and rng.random() < 0.1:
        i = rng.randrange(3)
        clients[i] = connect()
    elif what == 19 and rng.random() < 0.05:
        big = "x" * rng.choice([1 << 20, 8 << 20])
        both("large value", lambda s: (s.set("big", big), s.get("big"), s.delete_key("big"))[1:], pair)

print(f"torch {torch.__version__}, seed {seed}: {sum(counts.values())} calls alike")
print("  " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
