#!/bin/sh
# check_promises.sh ROOT: every test program that docs/promises.md names is one.
set -eu
cd "$1"
bad=0
for name in $(grep -o '`[a-z0-9_]*_test`' docs/promises.md | tr -d '`' | sort -u); do
  grep -rqE "(dl_[a-z_]*test\(|add_test\(NAME )$name( |\$)" tests --include=CMakeLists.txt || {
    echo "docs/promises.md names $name, which is no test"
    bad=1
  }
done
exit $bad
