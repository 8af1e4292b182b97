#!/bin/sh
# check_no_cuda.sh PROGRAM...: programs are linked with no library of NVIDIA's, so that they start as fast as without CUDA, and run
# on machines without these.
set -eu
bad=0
for program; do
  needed=$(readelf -d "$program" | grep NEEDED || true)
  [ -n "$needed" ] || { echo "$program: readelf names no library"; bad=1; }
  if echo "$needed" | grep -E 'libcu|libnccl|libdlrun_(cuda|nccl)'; then
    echo "$program is linked with it"
    bad=1
  fi
done
exit $bad
