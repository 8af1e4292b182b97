#!/bin/sh
# wheel_chroot.sh BUILD SOURCE: the wheel of the build runs on another Debian, in a root that mmdebstrap makes of its packages and of which
# nothing is left. Takes root, or user namespaces, and Debian's archive.
set -eu
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$source/cmake/wheel.sh" "$build" "$work/wheel"
cp "$source/tests/collectives/python/ranks.py" "$work/wheel/"
cat >"$work/wheel/run" <<'RUN'
set -eu
python3 -m venv /root/venv
/root/venv/bin/pip install --quiet --no-index /root/wheel/*.whl
for backend in auto tcp; do
  DLRUN_BACKEND=$backend /root/venv/bin/dlrun -n 3 /root/wheel/ranks.py all | tee /root/out
  [ "$(grep -c 'is done$' /root/out)" = 3 ]
done
/root/venv/bin/dlrun -n 2 /root/venv/bin/dlbench all_reduce -b 8 -e 1K -f 128 -n 5
RUN
chmod 755 "$work"
mmdebstrap --quiet --variant=minbase --include=python3-venv --format=null --customize-hook="copy-in $work/wheel /root" \
  --customize-hook='chroot "$1" sh /root/wheel/run' trixie
