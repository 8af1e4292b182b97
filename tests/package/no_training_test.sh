#!/bin/sh
# no_training_test.sh SOURCE: what cmake -DDLRUN_TRAINING=OFF would build: launcher, rendezvous and collectives, with no tensor in them.
# It is configured alone; ./dev test-all builds it.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
complain() {
  cat "$work/log"
  echo "$1"
  bad=1
}
cmake -G Ninja -S "$source" -B "$work/build" -DDLRUN_TRAINING=OFF >"$work/log" 2>&1 || complain "the configuration fails"
grep -q 'training library *off' "$work/log" || complain "the summary does not say that the training library is off"
! grep -qE 'oneDNN|OpenMP' "$work/log" || complain "oneDNN or OpenMP was looked for"
ninja -C "$work/build" -t targets all >"$work/log"
for wanted in bin/dlrun: bin/dlrun-rendezvous: bin/dlbench: lib/libdl_comm.so: libdlrun_init.a:; do
  grep -q "$wanted" "$work/log" || complain "no $wanted"
done
! grep -qE 'libdlrun_(core|nn|random|tensor)|train_cnn|_test:' "$work/log" || complain "more than launcher, rendezvous and collectives"
if cmake -S "$source" -B "$work/build" -DDLRUN_BUILD_TESTS=ON >"$work/log" 2>&1 || ! grep -q 'needs DLRUN_TRAINING=ON' "$work/log"; then
  complain "tests are not refused"
fi
exit $bad
