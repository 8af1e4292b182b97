"""The programs of the wheel, on PATH: this process becomes one of them."""

import os
import sys
from pathlib import Path


def _become(name: str) -> None:
    program = Path(__file__).parent / "bin" / name
    if not program.exists():
        sys.exit(f"{name}: {program} is not there: this package was not installed from a wheel")
    # Scripts run with the Python that the package is installed in, whatever PATH says.
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    os.execv(program, [str(program), *sys.argv[1:]])


def dlrun() -> None:
    """Starts a job."""
    _become("dlrun")


def dlbench() -> None:
    """Measures collectives."""
    _become("dlbench")
