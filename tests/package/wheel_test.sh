#!/bin/sh
# wheel_test.sh BUILD SOURCE: the wheel of the build, installed into a new environment, runs there with an empty environment and no variable.
set -eu
build=$1
source=$2
python=/usr/bin/python3
if ! "$python" -c 'import ensurepip, setuptools, venv, wheel' 2>/dev/null; then
  echo "skipped: $python lacks the packages that ./dev wheel installs, or venv"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$source/cmake/wheel.sh" "$build" "$work/made"
wheel=$(ls "$work"/made/*.whl)
[ "$(stat -c %s "$wheel")" -lt 20000000 ] || { echo "$wheel has more than 20 MB"; exit 1; }
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-index --no-cache-dir "$wheel"

says() { # TEXT COMMAND...
  wanted=$1
  shift
  env -i PATH=/usr/bin:/bin "$@" >"$work/out" 2>&1 || { cat "$work/out"; echo "failed: $*"; exit 1; }
  grep -q -- "$wanted" "$work/out" || { cat "$work/out"; echo "did not say '$wanted': $*"; exit 1; }
}
bin=$work/venv/bin
says 'dlrun 0' "$bin/dlrun" --version
says 'rank 2 is done' "$bin/dlrun" -n 3 "$source/tests/collectives/python/ranks.py" all
says 'rank 2 is done' DLRUN_BACKEND=tcp "$bin/dlrun" -n 3 "$source/tests/collectives/python/ranks.py" all
says 'Out of bounds values : 0 OK' "$bin/dlrun" -n 2 "$bin/dlbench" all_reduce -b 8 -e 1K -f 128 -n 5
# Everything comes from the wheel but the C and C++ runtimes.
package=$(echo "$work"/venv/lib/python3*/site-packages/dlrun)
for file in "$package"/bin/* "$package/lib/libdl_comm.so.1" "$package/lib/libdlrun_rendezvous.so"; do
  others=$(ldd "$file" | grep -vE "$work|linux-vdso|ld-linux|lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s)\.so\." || true)
  [ -z "$others" ] || { echo "$file takes from the machine: $others"; exit 1; }
done
