"""dlrun: collectives between the ranks of a job, and the launcher `dlrun`.

    import numpy, dlrun

    with dlrun.init() as group:  # under dlrun, mpirun or srun
        x = numpy.full(1000, group.rank, numpy.float32)
        group.all_reduce(x)

`dlrun -n 4 python3 train.py` starts four ranks. docs/guides/python.md is the guide.
"""

from dlrun import errors
from dlrun._buffers import Typed
from dlrun.errors import Error
from dlrun.group import (
    ANY_SOURCE,
    NO_COLOR,
    Group,
    Memory,
    Recv,
    Send,
    Work,
    agree,
    init,
    make_group,
    should_checkpoint,
    unique_id,
    wait_any,
)

__all__ = [
    "ANY_SOURCE",
    "NO_COLOR",
    "Error",
    "Group",
    "Memory",
    "Recv",
    "Send",
    "Typed",
    "Work",
    "agree",
    "errors",
    "init",
    "make_group",
    "should_checkpoint",
    "unique_id",
    "wait_any",
]
