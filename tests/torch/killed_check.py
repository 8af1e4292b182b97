"""A rank dies by SIGKILL while the others wait for it: each of them gets an error that names it, from an operation, a Work, and
DDP's backward. By hand, with PyTorch (2.4 or newer) in an environment; dlrun ends with 137, and every rank but 1 says `named`:

    dlrun -n 3 tests/torch/killed_check.py operation
    dlrun -n 3 tests/torch/killed_check.py work
    dlrun -n 3 tests/torch/killed_check.py ddp
"""

import os
import signal
import sys

import torch
import torch.distributed as dist
import dlrun.torch  # needed before PyTorch 2.14
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("dlrun")
rank, how = dist.get_rank(), sys.argv[1]
model = DistributedDataParallel(torch.nn.Linear(4, 4))
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # dlrun ends the ranks that are left after a grace


def one(step):
    if how == "ddp":
        loss = model(torch.ones(2, 4)).sum()
        if rank == 1 and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        return
    if rank == 1 and step == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "work":
        dist.all_reduce(torch.ones(1000), async_op=True).wait()
    else:
        dist.all_reduce(torch.ones(1000))


try:
    for step in range(10):
        one(step)
except Exception as error:
    assert "rank 1" in str(error), error
    if how != "ddp":  # whose error has come through C++
        assert error.rank == 1, error
    line = next(line for line in str(error).splitlines() if "rank 1" in line)
    print(f"rank {rank}: named: {type(error).__name__}: {line}", flush=True)
else:
    raise AssertionError("rank 1 has not died")
os._exit(0)
