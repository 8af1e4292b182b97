"""What `import torch` runs (entry point of torch.backends): `dlrun --torch-backend dlrun`.

If DLRUN_TORCH_BACKEND says so, "gloo" of torch.distributed means dlrun's backend. This module stands
outside of the package, whose import loads the library, and costs nothing if the variable is not set.
An error in it would break `import torch`, so it throws none there.
"""

import os
import sys


def run():
    chosen = os.environ.get("DLRUN_TORCH_BACKEND")
    if not chosen:
        return
    try:
        if chosen != "dlrun":
            raise ValueError(f"DLRUN_TORCH_BACKEND is '{chosen}', wanted 'dlrun'")
        if "torch.distributed" in sys.modules:
            _replace(sys.modules["torch.distributed"])
        else:
            # PyTorch imports it later, when the rest of PyTorch is there.
            sys.meta_path.insert(0, _Finder())
    except Exception as error:
        print(f"dlrun: Gloo is not replaced: {error}", file=sys.stderr, flush=True)


class _Finder:
    """Replaces Gloo as soon as torch.distributed is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch.distributed":
            return None
        from importlib.machinery import PathFinder

        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _replace(module)

        spec.loader.exec_module = exec_module
        return spec


def _create(given, options=None):
    from dlrun.torch import create

    return create(given, options)


def _replace(distributed):
    if not distributed.is_available():
        return
    backend = distributed.Backend
    if hasattr(backend, "_ensure_backend_registered"):
        # Not with the number of Gloo's kind: DDP's logger takes a backend of that for Gloo's class.
        backend.register_backend("gloo", _create, extended_api=True, devices=["cpu"])
    else:
        # Older than 2.14. Training over Gloo in silence is not what was asked for.
        distributed.init_process_group = _refuse


def _refuse(*_args, **_kwargs):
    raise RuntimeError(
        "dlrun: --torch-backend dlrun needs PyTorch 2.14 or newer; with this one say "
        "init_process_group('dlrun') after `import dlrun.torch`, or leave the option out"
    )
