#!/bin/sh
# check_environment.sh ROOT: docs/reference/environment.md has an item for each variable of env_list.def, with its meaning, and no other;
# tests/README.md has a row for each variable that a test or a script of the tests reads.
set -eu
cd "$1"
def=$(sed -n 's/^DL_ENV([A-Za-z0-9]*, "\([^"]*\)", "\(.*\)")$/- `\1`: \2/p' core/base/env_list.def)
# clang-format does not touch .def files, so that an entry is one line.
[ "$(printf '%s\n' "$def" | wc -l)" = "$(grep -c '^DL_ENV' core/base/env_list.def)" ] || { echo "env_list.def: an entry does not stand on one line"; exit 1; }
list=$(printf '%s\n' "$def" | awk -f tests/docs/wrap.awk)
[ "$list" = "$(sed -n '/^- `/,/^$/p' docs/reference/environment.md)" ] || {
  echo "docs/reference/environment.md and core/base/env_list.def differ; the list should be:"
  printf '%s\n' "$list"
  exit 1
}

for name in $(grep -rhoE '(getenv\(|variable\(|\$\{?)"?DLRUN_TEST_[A-Z]+' tests --include='*.cc' --include='*.h' --include='*.sh' |
  grep -o 'DLRUN_TEST_.*' | sort -u); do
  grep -q "\`$name\`" tests/README.md || { echo "tests/README.md does not name $name"; exit 1; }
done
