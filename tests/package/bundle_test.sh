#!/bin/sh
# bundle_test.sh BUILD SOURCE: a bundle of the build runs on a system that has only a C library, /proc and /dev, from another folder and with
# an empty environment.
set -eu
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A mount namespace: as root, or if users may have their own.
if unshare -m true 2>/dev/null; then
  apart="unshare -m"
elif unshare -rm true 2>/dev/null; then
  apart="unshare -rm"
else
  echo "skipped: no mount namespaces here"
  exit 77
fi

"$source/cmake/bundle.sh" "$build" "$work/made"
# What is carried, and what is compiled in, is in the licences and in the bill of materials.
for package in libdnnl2 libgrpc-dev; do
  grep -q "^======== $package ====" "$work/made/share/doc/dlrun/LICENCES" || { echo "no licence of $package"; exit 1; }
  grep -q "\"name\": \"$package\", \"versionInfo\": \"[0-9]" "$work/made/share/doc/dlrun/dlrun.spdx.json" || { echo "$package is not in the bill"; exit 1; }
done
root=$work/root
mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/opt" "$root/lib/x86_64-linux-gnu" "$root/lib64"
mv "$work/made" "$root/opt/somewhere"
for library in libc.so.6 libm.so.6; do cp -L "/lib/x86_64-linux-gnu/$library" "$root/lib/x86_64-linux-gnu/"; done
cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"

inside() {
  # shellcheck disable=SC2016,SC2086 # expanded by the inner shell; two words
  env -i PATH="/usr/sbin:$PATH" $apart sh -ec '
    root=$1
    shift
    mount --rbind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec env -i "$(command -v chroot)" "$root" "$@"' sh "$root" "$@"
}
says() { # TEXT COMMAND...
  wanted=$1
  shift
  inside "$@" >"$work/out" 2>&1 || { cat "$work/out"; echo "failed: $*"; exit 1; }
  grep -q -- "$wanted" "$work/out" || { cat "$work/out"; echo "did not say '$wanted': $*"; exit 1; }
}
bin=/opt/somewhere/bin
says 'dlrun 0' $bin/dlrun --version
says 'Out of bounds values : 0 OK' $bin/dlrun --nproc-per-node 2 $bin/dlbench all_reduce -b 8 -e 1K -f 128 -n 5
says 'accuracy' $bin/dlrun --nproc-per-node 2 $bin/train_cnn --epochs 0
