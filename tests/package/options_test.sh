#!/bin/sh
# options_test.sh SOURCE: CMake configures with each option off and on. An option that is on and finds nothing is refused by name.
# -DDLRUN_TRAINING=OFF would build launcher, rendezvous and collectives, with no tensor in them.
# Configurations alone; ./dev test-all builds with all of them the other way, and without the training library.
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
configure() { cmake -G Ninja -S "$source" -B "$work/build" "$@" >"$work/log" 2>&1; }

configure -DDLRUN_BUILD_TESTS=OFF || complain "the configuration fails"
cmake -N -LA -B "$work/build" | sed -nE 's/^(DLRUN_[A-Z_]+):(BOOL=(ON|OFF)|STRING=auto)$/\1 \2/p' >"$work/options"
[ "$(wc -l <"$work/options")" -ge 10 ] || complain "these are all options: $(cat "$work/options")"
while read -r option value; do
  value=${value#*=}
  configure "-D$option=OFF" || complain "the configuration fails with $option=OFF"
  case $option in
    DLRUN_CUDA | DLRUN_JPEG | DLRUN_MPI | DLRUN_NCCL | DLRUN_PNG | DLRUN_TRAINING)
      grep -q "off ($option)" "$work/log" || complain "the summary does not say that $option is off"
      ;;
  esac
  if ! configure "-D$option=ON"; then
    [ "$value" = auto ] && grep -q "$option=ON, but " "$work/log" || complain "the configuration fails with $option=ON"
  fi
  configure "-D$option=$value" || complain "the configuration fails with $option=$value again"
done <"$work/options"

rm -rf "$work/build"
configure -DDLRUN_TRAINING=OFF || complain "the configuration without the training library fails"
! grep -qE 'oneDNN|OpenMP' "$work/log" || complain "oneDNN or OpenMP was looked for"
ninja -C "$work/build" -t targets all >"$work/log"
for wanted in bin/dlrun: bin/dlrun-rendezvous: bin/dlbench: lib/libdl_comm.so: libdlrun_init.a:; do
  grep -q "$wanted" "$work/log" || complain "no $wanted without the training library"
done
! grep -qE 'libdlrun_(core|nn|random|tensor)|train_cnn|_test:' "$work/log" || complain "more than launcher, rendezvous and collectives"
if configure -DDLRUN_BUILD_TESTS=ON || ! grep -q 'needs DLRUN_TRAINING=ON' "$work/log"; then
  complain "tests are not refused without the training library"
fi
exit $bad
