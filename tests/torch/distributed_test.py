"""PyTorch's own DistributedTest over the backend dlrun, which stands in for Gloo: the tests look for that name.

By hand, with the wheel and PyTorch (and expecttest, numpy, psutil) in an environment; the rest of the line goes to unittest:

    WORLD_SIZE=2 python tests/torch/distributed_test.py           # over dlrun
    WORLD_SIZE=2 DLRUN_AS=no python tests/torch/distributed_test.py   # over Gloo
"""

import os
import sys
import tempfile

os.environ.setdefault("BACKEND", "gloo")
os.environ.setdefault("WORLD_SIZE", "2")
if "TEMP_DIR" not in os.environ:  # the ranks inherit it
    os.environ["TEMP_DIR"] = tempfile.mkdtemp()
    for folder in ("barrier", "test_dir", "init_dir"):
        os.mkdir(os.path.join(os.environ["TEMP_DIR"], folder))

import torch
import torch.distributed as dist

IS_DLRUN = os.environ.get("DLRUN_AS", "gloo") == "gloo"
if IS_DLRUN:
    import dlrun.torch

    dist.Backend.register_backend("gloo", dlrun.torch.create, extended_api=True, devices=["cpu"])

from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.distributed import distributed_test
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

# PyTorch's profiler takes events that are asynchronous and have shapes from backends in C++ alone.
if IS_DLRUN:
    distributed_test.PROFILING_SUPPORTED_BACKENDS = []
    distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS = []
GLOOS_WORDS = "looks for Gloo's words; ours name the rank that is missing, too"
EXCEPTIONS = {
    "test_barrier_timeout_full_group": GLOOS_WORDS,
    "test_barrier_timeout_group": GLOOS_WORDS,
    "test_ddp_logging_data_cpu": "DDP's log calls every backend from outside 'custom'",
    "test_monitored_barrier_failure_order": GLOOS_WORDS,
    "test_monitored_barrier_gloo": GLOOS_WORDS,
    "test_monitored_barrier_gloo_rank_0_timeout": GLOOS_WORDS,
    "test_monitored_barrier_gloo_subgroup": GLOOS_WORDS,
    "test_monitored_barrier_wait_all_ranks": GLOOS_WORDS,
    "test_sparse_all_reduce_sum": "sparse tensors are refused by name",
}


class TestDlrun(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        if IS_DLRUN and self._testMethodName in EXCEPTIONS:
            self.skipTest(EXCEPTIONS[self._testMethodName])
        super().setUp()
        # 3 s faster a test than a new Python for each rank.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


if __name__ == "__main__":
    run_tests(argv=sys.argv)
