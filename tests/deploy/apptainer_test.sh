#!/bin/sh
# apptainer_test.sh BUILD SOURCE: the launch scripts of deploy/apptainer, with a program in Apptainer's place that does what Apptainer does
# by default: a user namespace and a read-only root, and the host's network, processes' descriptors and variables (container.c).
set -eu
build=$1
source=$2
if ! "$build/tests/container" --userns 100000 "$build" true 2>/dev/null; then
  [ "$(id -u)" != 0 ] || [ -z "${DLRUN_TEST_ALL-}" ] || { echo "no container can be made here"; exit 1; }
  echo "skipped: a container needs namespaces, and these need root"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/apptainer" <<TEXT
#!/bin/sh
echo "apptainer \$*" >>"$work/calls"
[ "\$1" = exec ] && shift
while case \$1 in --*) ;; *) false ;; esac; do shift; done
shift
exec "$build/tests/container" --userns 100000 "$build" env PATH="/mnt/build/bin:\$PATH" "\$@"
TEXT
chmod +x "$work/apptainer"
chmod 755 "$work"
export PATH="$work:$build/bin:$PATH" XDG_CONFIG_HOME="$work"
bad=0
expect() { # CODE TEXT CALL COMMAND...
  wanted=$1
  text=$2
  call=$3
  shift 3
  : >"$work/calls"
  code=0
  "$@" >"$work/out" 2>&1 || code=$?
  if [ $code != "$wanted" ] || ! grep -qF "$text" "$work/out" || ! grep -qF "$call" "$work/calls"; then
    cat "$work/out" "$work/calls"
    echo "ended with $code, wanted $wanted, the text '$text' and the call '$call': $*"
    bad=1
  fi
}
scripts=$source/deploy/apptainer
expect 0 '[rank 1] local 1 of node 0, shm: right' 'apptainer exec a.sif dlrun --nproc-per-node 2 rank_by_probe' \
  "$scripts/launch_multiple_cpu_container.sh" rank_by_probe 2 a.sif
expect 0 '[rank 1] local 1 of node 0, shm: right' 'apptainer exec --nv a.sif rank_by_probe' \
  "$scripts/launch_multiple_machines_container.sh" rank_by_probe localhost:2 a.sif
expect 0 '[rank 1] local 1 of node 0, shm: right' 'apptainer exec a.sif rank_by_probe' \
  env APPTAINER_OPTIONS= "$scripts/launch_multiple_machines_container.sh" rank_by_probe localhost:2 a.sif
: >"$work/calls"
"$scripts/launch_multiple_cpu_container.sh" only.py 2>/dev/null && bad=1
[ ! -s "$work/calls" ] || { echo "a line without an image calls apptainer"; bad=1; }
exit $bad
