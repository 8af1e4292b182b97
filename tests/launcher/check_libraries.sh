#!/bin/sh
# check_libraries.sh DLRUN: dlrun needs the C library only, and its loader looks for it only in the system's folder, so that it runs on any
# node and starts in a millisecond.
set -eu
others=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vxE 'libc\.so\..*|libm\.so\..*|ld-linux.*' || true)
[ -z "$others" ] || { echo "dlrun links" $others "beside libc and libm"; exit 1; }
path=$(readelf -d "$1" | sed -n 's/.*(\(RPATH\|RUNPATH\)).*\[\(.*\)\]/\2/p')
[ -z "$path" ] || { echo "dlrun's loader looks for libraries in $path"; exit 1; }
