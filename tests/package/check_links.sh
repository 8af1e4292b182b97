#!/bin/sh
# check_links.sh FILE...: these programs and libraries contain and are linked with no library of NVIDIA's and no gRPC, which are modules: so
# they start as fast as without them, and run on machines without these.
set -eu
bad=0
for file; do
  needed=$(readelf -d "$file" | grep NEEDED || true)
  [ -n "$needed" ] || { echo "$file: readelf names no library"; bad=1; }
  if echo "$needed" | grep -E 'libcu|libnccl|libgrpc|libprotobuf|libdlrun_'; then
    echo "$file is linked with it"
    bad=1
  fi
  if readelf -sW "$file" | grep -m1 ' grpc_init$'; then
    echo "$file contains gRPC"
    bad=1
  fi
done
exit $bad
