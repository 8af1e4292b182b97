#!/bin/sh
# typed_test.sh SOURCE: what mypy says of typed.py. Its lines that end in `# wrong: CODES` have those errors, and no other line has
# any. Skipped without mypy 1.7, the first that knows a TypedDict of keywords; Debian 12 has an older one.
set -eu
source=$1
version=$(mypy --version 2>/dev/null | sed 's/^mypy \([0-9]*\)\.\([0-9]*\).*/\1 \2/') || version=
# shellcheck disable=SC2086 # two numbers
set -- ${version:-0 0}
[ "$1" -gt 1 ] || { [ "$1" = 1 ] && [ "$2" -ge 7 ]; } || { echo "there is no mypy 1.7 or newer"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source/tests/collectives/python"
export MYPYPATH="$source/collectives/python"
# The package's own files, too; those for PyTorch need PyTorch.
mypy --strict --cache-dir "$work/cache" -m dlrun -m dlrun._programs
sed -n 's/.*# wrong: \(.*\)/\1/; t found; b; :found =; p' typed.py | paste -d' ' - - | sort >"$work/wanted"
mypy --strict --cache-dir "$work/cache" --no-pretty --hide-error-context typed.py >"$work/said" || true
# The codes of a line, each once.
sed -n 's/^typed\.py:\([0-9]*\): error: .*\[\(.*\)\]$/\1 \2/p' "$work/said" | sort -u |
  awk '{ codes[$1] = codes[$1] ? codes[$1] ", " $2 : $2 } END { for (line in codes) print line, codes[line] }' | sort >"$work/found"
diff "$work/wanted" "$work/found" || { cat "$work/said"; exit 1; }
for near in async_op order root backend; do
  grep -q "did you mean \"$near\"" "$work/said" || { cat "$work/said"; echo "nothing hints at $near"; exit 1; }
done
