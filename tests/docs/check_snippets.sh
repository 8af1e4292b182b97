#!/bin/sh
# check_snippets.sh ROOT WORK C++-COMPILER C-COMPILER [FLAG...]: every C++ and C block of the documentation and of the headers' comments compiles,
# one translation unit a page and one for all headers. snippets.awk says what a block is, and how a page says what its fragments need.
# Types are checked and no code is made; the flags are those that dlrun's headers need.
# shellcheck disable=SC2086  # lists of flags
set -u
snippet_flags="-std=c++20 -Wall -Wextra -Wno-unused -Wno-return-type -Werror"
root=$1 work=$2 cxx=$3 cc=$4
shift 4
cd "$root" || exit 1
rm -rf "$work"
mkdir -p "$work"
bad=0
units=0
blocks=0

take() { # KIND UNIT FILE...: the blocks of files, in $work/UNIT
  kind=$1 unit=$work/$2
  shift 2
  awk -v "root=$root/" -v "want=$kind" -v table=tests/docs/headers.txt -f tests/docs/snippets.awk "$@" >"$unit" || bad=1
  [ -s "$unit" ] || rm "$unit"
}

for page in README.md CONTRIBUTING.md $(find docs examples -name '*.md' | sort); do
  name=$(echo "$page" | tr / _)
  take cpp "$name.cc" "$page"
  take c "$name.c" "$page"
done
# shellcheck disable=SC2046  # no path here has a blank
take header headers.cc $(find core nn collectives rendezvous launcher examples -name '*.h' | sort)

# Most pages begin with <dlrun.h>, the largest part of their compilation: g++ reads it precompiled, and says if it cannot.
pch=
if "$cxx" --version | grep -q 'Free Software'; then
  mkdir "$work/pch"
  pch="-I$work/pch -Winvalid-pch"
  echo '#include "nn/include/dlrun.h"' >"$work/pch/dlrun.h"
  "$cxx" -x c++-header $snippet_flags "$@" "-I$root" "-I$root/nn/include" "$work/pch/dlrun.h" || bad=1
fi

for unit in "$work"/*.c "$work"/*.cc; do
  [ -e "$unit" ] || continue
  units=$((units + 1))
  blocks=$((blocks + $(grep -c '^/\* block \*/$' "$unit")))
  case $unit in
    *.c) "$cc" -fsyntax-only -std=c11 -Wall -Wextra -Wno-unused -Werror "-I$root/collectives/c" "$unit" || bad=1 ;;
    *) "$cxx" -fsyntax-only $snippet_flags $pch "$@" "-I$root" "-I$root/nn/include" "$unit" || bad=1 ;;
  esac
done
echo "$blocks blocks in $units translation units"
[ "$blocks" -gt 0 ] || bad=1
exit $bad
