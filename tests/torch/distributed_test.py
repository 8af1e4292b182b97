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

if os.environ.get("DLRUN_AS", "gloo") == "gloo":
    import dlrun.torch

    dist.Backend.register_backend(
        "gloo",
        dlrun.torch._create,
        extended_api=True,
        devices=["cpu"],
        _backend_type=dist.ProcessGroup.BackendType.GLOO,
    )

from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.distributed import distributed_test
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

# PyTorch's profiler takes asynchronous events with shapes from backends in C++ alone.
distributed_test.PROFILING_SUPPORTED_BACKENDS = []


class TestDlrun(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()


if __name__ == "__main__":
    run_tests(argv=sys.argv)
