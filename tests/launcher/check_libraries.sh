#!/bin/sh
# check_libraries.sh DLRUN: dlrun needs the C library only, so that it runs on any node and starts in a millisecond.
set -eu
others=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vxE 'libc\.so\..*|libm\.so\..*|ld-linux.*' || true)
[ -z "$others" ] || { echo "dlrun links" $others "beside libc and libm"; exit 1; }
