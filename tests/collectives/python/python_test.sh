#!/bin/sh
# python_test.sh BUILD SOURCE: the Python package over the build's library, with Debian's Python.
set -eu
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DLRUN_LIBRARY="$build/lib/libdl_comm.so" PYTHONPATH="$source/collectives/python" PYTHONDONTWRITEBYTECODE=1
ranks=$source/tests/collectives/python/ranks.py

run() { # WANTED-STATUS COMMAND...
  wanted=$1
  shift
  status=0
  "$@" >"$work/out" 2>&1 || status=$?
  [ "$status" = "$wanted" ] || { cat "$work/out"; echo "status $status, wanted $wanted: $*"; exit 1; }
}
says() {
  grep -q -- "$1" "$work/out" || { cat "$work/out"; echo "nothing says: $1"; exit 1; }
}

for backend in shm tcp; do
  DLRUN_BACKEND=$backend run 0 "$build/bin/dlrun" -n 3 python3 "$ranks" all
  says 'rank 2 is done'
  for size in 1 2; do
    DLRUN_BACKEND=$backend run 0 "$build/bin/dlrun" -n $size python3 "$ranks" arguments
  done
done
# The end of Python frees what is in a cycle while the library still uses it.
run 0 "$build/bin/dlrun" -n 2 python3 "$ranks" ends
# Wrappers, and programs one behind the other, are ranks.
run 0 "$build/bin/dlrun" -n 2 python3 "$ranks" handed
run 0 "$build/bin/dlrun" -n 2 sh -c 'python3 "$1" spawned && (python3 "$1" small); exit $?' sh "$ranks"
says 'rank 1 is done'
run 137 "$build/bin/dlrun" -n 3 python3 "$ranks" killed
says 'rank 0 has seen it'
says 'rank 2 has seen it'
# Without dlrun, which would end the ranks that are left.
ranks_that_meet() {
  for rank in 0 1 2; do
    RANK=$rank WORLD_SIZE=3 RANKS_METHOD="file://$work/meet" python3 "$ranks" reformed &
  done
  wait
}
run 0 ranks_that_meet
says 'rank 0 has gone on'
says 'rank 2 has gone on'
run 0 "$build/bin/dlrun" -n 3 python3 "$ranks" mismatched
says 'has seen it: mismatch'
run 1 "$build/bin/dlrun" -n 3 python3 "$ranks" recorded
says 'LookupError: no batch 17'

# Alone, with nothing but the library.
run 0 python3 -c 'import dlrun, array
g = dlrun.init()
x = array.array("f", [2])
g.all_reduce(x)
assert x[0] == 2 and g.size == 1 and "solo" in repr(g)'
# A world of one checks its arguments, too.
run 1 python3 -c 'import dlrun; dlrun.init(init_method="bogus://x")'
says "init method is 'bogus://x', wanted env://"
# PyTorch runs this function at its import: it does nothing unless the variable is set, and never throws.
run 0 env -u DLRUN_LIBRARY python3 -c 'import sys, dlrun_replace_gloo
before = list(sys.meta_path)
dlrun_replace_gloo.run()
assert sys.meta_path == before and "dlrun" not in sys.modules'
DLRUN_TORCH_BACKEND=nonsense run 0 python3 -c 'import dlrun_replace_gloo; dlrun_replace_gloo.run()'
says "DLRUN_TORCH_BACKEND is 'nonsense', wanted 'dlrun'"
# With PyTorch's names, and without PyTorch: a new one, whose torch.distributed is imported before or later, and an old one.
mkdir -p "$work/torch/distributed"
echo >"$work/torch/__init__.py"
cat >"$work/torch/distributed/__init__.py" <<'EOF'
import os
class Backend:
    made = {}
    if "OLD" not in os.environ:
        _ensure_backend_registered = None
    @classmethod
    def register_backend(cls, name, create, extended_api, devices):
        cls.made[name] = create
def is_available():
    return True
def init_process_group(backend):
    return Backend.made[backend].__module__
EOF
replaced='import dlrun_replace_gloo, os, torch
if os.environ["EARLY"] == "1": import torch.distributed
dlrun_replace_gloo.run()
from torch.distributed import init_process_group
assert init_process_group("gloo") == "dlrun_replace_gloo"'
for early in 0 1; do
  EARLY=$early DLRUN_TORCH_BACKEND=dlrun PYTHONPATH="$PYTHONPATH:$work" run 0 python3 -c "$replaced"
  OLD=1 EARLY=$early DLRUN_TORCH_BACKEND=dlrun PYTHONPATH="$PYTHONPATH:$work" run 1 python3 -c "$replaced"
  says 'needs PyTorch 2.14 or newer'
done

# A wrong library: the text says that its name is DLRUN_LIBRARY's. Older ones have a lower version, or lack a function.
for wrong in /dev/null /nowhere/libdl_comm.so "$ranks"; do
  DLRUN_LIBRARY=$wrong run 1 python3 -c 'import dlrun'
  says "dlrun: DLRUN_LIBRARY=$wrong cannot be loaded"
  says "wanted the path of dlrun's libdl_comm.so"
done
DLRUN_LIBRARY=libm.so.6 run 1 python3 -c 'import dlrun'
says "DLRUN_LIBRARY=libm.so.6 is not dlrun's library; wanted the path"
wrapped() { # PYTHON: imports dlrun after this line has changed ctypes
  python3 -c "import ctypes
class Changed(ctypes.CDLL):
    def __getattr__(self, name):
        $1
        return super().__getattr__(name)
ctypes.CDLL = Changed
import dlrun"
}
run 1 wrapped 'if name == "dl_comm_version": return lambda: 1'
says "DLRUN_LIBRARY=$DLRUN_LIBRARY has version 1 of the interface, wanted 2 or newer"
run 1 wrapped 'if name == "dl_agree": raise AttributeError(name)'
says "DLRUN_LIBRARY=$DLRUN_LIBRARY is older than this package: it has no dl_agree()"
