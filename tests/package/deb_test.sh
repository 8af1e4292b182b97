#!/bin/sh
# deb_test.sh BUILD SOURCE: Debian's packages of the build: lintian finds no error, they install in a fresh Debian, programs run, a program is
# built with find_package(dlrun), and nothing is left when they are removed. Takes root, mmdebstrap, lintian and Debian's archive.
set -eu
build=$1
source=$2
if [ "$(id -u)" != 0 ] || ! command -v mmdebstrap >/dev/null || ! command -v lintian >/dev/null; then
  [ "$(id -u)" != 0 ] || [ -z "${DLRUN_TEST_ALL-}" ] || { echo "no mmdebstrap or lintian"; exit 1; }
  echo "skipped: wants root, mmdebstrap and lintian"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/made" "$work/program"
(cd "$build" && cpack -G DEB -B "$work/made" >"$work/log" 2>&1) || { cat "$work/log"; exit 1; }
rm -rf "$work/made/_CPack_Packages"
ls -l "$work/made"
# The maintainer is the person who builds the packages; a test has no mail host.
lintian --allow-root --fail-on error --tag-display-limit 0 --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$work"/made/*.deb >"$work/log" 2>&1 || { grep '^E:' "$work/log"; exit 1; }
for deb in "$work"/made/*.deb; do
  name=$(dpkg-deb -f "$deb" Package)
  dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/share/doc/$name/$name.spdx.json" | python3 -m json.tool >"$work/materials"
  grep -q '"SPDX-2.3"' "$work/materials"
done

if grep -q '^DLRUN_TRAINING:BOOL=OFF' "$build/CMakeCache.txt"; then
  cat >"$work/program/main.cc" <<'TEXT'
#include <collectives/init/init.h>
#include <cstdio>
int main() {
  dl::init_process_group();
  std::printf("rank %d\n", dl::rank());
}
TEXT
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(outside LANGUAGES CXX)' 'find_package(dlrun REQUIRED)' \
    'add_executable(outside main.cc)' 'target_link_libraries(outside PRIVATE dlrun::init)' >"$work/program/CMakeLists.txt"
else
  cp "$source/tests/package/CMakeLists.txt" "$source/tests/package/main.cc" "$work/program/"
fi
cat >"$work/run" <<'RUN'
set -eu
cd /root
install() { apt-get install -y -q --no-install-recommends "$@" >/root/log 2>&1 || { cat /root/log; exit 1; }; }
dpkg-query -W -f '${Package}\n' | sort >/root/before
install ./made/dlrun_*.deb
dlrun --version
dlrun -n 2 dlbench all_reduce -b 8 -e 1K -f 128 -n 5 | grep 'Out of bounds values : 0 OK'
[ ! -e /usr/bin/train_cnn ] || dlrun -n 2 train_cnn --epochs 0 | grep accuracy
install ./made/libdlrun-dev_*.deb g++ cmake ninja-build
cmake -G Ninja -S program -B built >/root/log 2>&1 && cmake --build built >>/root/log 2>&1 || { cat /root/log; exit 1; }
dlrun -n 2 built/outside
[ ! -e made/dlrun-mpi_*.deb ] || install ./made/dlrun-mpi_*.deb
dpkg -L dlrun libdlrun-dev | sort -u >/root/files
apt-get purge -y -q dlrun libdlrun-dev dlrun-mpi >/root/log 2>&1 || { cat /root/log; exit 1; }
while read -r file; do
  if [ -d "$file" ]; then case $file in *dlrun*) echo "left: $file"; exit 1 ;; esac; continue; fi
  [ ! -e "$file" ] || { echo "left: $file"; exit 1; }
done </root/files
left=$(find /etc /usr /var /opt -xdev -iname '*dlrun*' ! -path '/var/cache/apt/*' ! -path '/var/log/*')
[ -z "$left" ] || { echo "left: $left"; exit 1; }
RUN
mmdebstrap --quiet --variant=minbase --format=null --customize-hook="copy-in $work/made $work/program $work/run /root" \
  --customize-hook='chroot "$1" sh /root/run' bookworm
