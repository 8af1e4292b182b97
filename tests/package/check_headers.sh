#!/bin/sh
# check_headers.sh ROOT [COMPILER]: cmake/public_headers.txt lists what the documented headers include and no more, at most 174
# headers, none of a kernel or a backend, and none that includes a library of ours that programs need not have. With a compiler:
# each header compiles alone.
set -eu
cd "$1"
list=cmake/public_headers.txt
most=176
of() { if [ "$1" = dlrun.h ]; then echo nn/include/dlrun.h; else echo "$1"; fi; }
part() { # documented or detail
  awk -v part="$1" '/^# Documented/ { now = "documented" } /^# Detail/ { now = "detail" } /^[^#]/ && now == part' "$list"
}
bad=0
complain() {
  echo "$list: $*"
  bad=1
}

headers=$(grep -v '^#' "$list")
count=$(printf '%s\n' "$headers" | grep -c '\.h$')
[ "$count" -ge 50 ] || complain "only $count headers: is this the list?"
[ "$count" -le $most ] || complain "$count headers, wanted at most $most"
for p in documented detail; do
  [ "$(part $p | grep -v '^dlrun.h$')" = "$(part $p | grep -v '^dlrun.h$' | LC_ALL=C sort -u)" ] || complain "the part '$p' is not sorted, or names a header twice"
done
for h in $headers; do
  [ -f "$(of "$h")" ] || { complain "$h does not exist"; continue; }
  case $h in
    core/kernels/* | collectives/shm/* | collectives/tcp/* | collectives/hybrid/* | collectives/mpi/* | collectives/nccl/* | collectives/device/*)
      complain "$h belongs to a kernel or a backend" ;;
  esac
  others=$(grep -nE '^ *# *include *<(grpc|google/protobuf|cuda|cudnn|cublas|nccl|nvml|oneapi|dnnl|hwloc|hwy|nlohmann|CLI/|spdlog|boost/|openssl/|mpi)' "$(of "$h")" || true)
  [ -z "$others" ] || complain "$h includes a library that programs need not have: $others"
done
# What is included is listed; what is listed as a detail is included.
# shellcheck disable=SC2046 # a list of paths
included=$(for h in $headers; do of "$h"; done | xargs sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' | LC_ALL=C sort -u)
for h in $included; do
  printf '%s\n' "$headers" | grep -qxF "$h" || complain "$h is missing, $(grep -lF "\"$h\"" $(for x in $headers; do of "$x"; done) | head -n 1) includes it"
done
for h in $(part detail); do
  printf '%s\n' "$included" | grep -qxF "$h" || complain "$h stands among the details, and no listed header includes it"
done
[ $bad = 0 ] || exit 1
echo "$count headers, wanted at most $most"

[ -n "${2-}" ] || exit 0
# shellcheck disable=SC2016 # expanded by the inner shell
for h in $headers; do case $h in *.h) of "$h" ;; esac; done |
  xargs -P "$(nproc)" -n 1 sh -c '
    language=c++
    case $2 in */c/*) language=c ;; esac
    case $language in c) standard=-std=c11 ;; *) standard=-std=c++20 ;; esac
    "$1" -x $language $standard -fsyntax-only -Wall -Werror -I. -Inn/include -include "$2" /dev/null || { echo "$2 does not compile alone"; exit 1; }' sh "$2"
echo "each compiles alone"
