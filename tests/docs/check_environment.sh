#!/bin/sh
# check_environment.sh ROOT: docs/reference/environment.md has a row for each variable of env_list.def, with the same meaning, and no other.
set -eu
cd "$1"
def=$(sed -n 's/^DL_ENV([A-Za-z0-9]*, "\([^"]*\)", "\(.*\)")$/| `\1` | \2 |/p' core/base/env_list.def)
# clang-format does not touch .def files, so that an entry is one line.
[ "$(printf '%s\n' "$def" | wc -l)" = "$(grep -c '^DL_ENV' core/base/env_list.def)" ] || { echo "env_list.def: an entry does not stand on one line"; exit 1; }
doc=$(grep '^| `' docs/reference/environment.md)
[ "$def" = "$doc" ] || {
  echo "docs/reference/environment.md and core/base/env_list.def differ; the rows should be:"
  printf '%s\n' "$def"
  exit 1
}
