#!/bin/sh
# dev_test.sh SOURCE: how `./dev test` ends. The tools that it calls are programs that do nothing, so that it takes no time.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/r/tests/fuzz"
cp "$source/dev" "$work/r/dev"
cp "$source/tests/costs.txt" "$work/r/tests/costs.txt"
: >"$work/r/tests/fuzz/fuzz_one.cc"
tool() { # NAME BODY
  printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
tool dpkg-query 'printf installed'
tool git 'echo a.cc'
for name in cmake ninja ctest clang-format-19; do tool $name ''; done
tool ninja 'mkdir -p build/asan/fuzz; printf "#!/bin/sh\n" >build/asan/fuzz/fuzz_one; chmod +x build/asan/fuzz/fuzz_one'
export PATH="$work/bin:$PATH" JOBS=1
bad=0
complain() {
  echo "$1, printed:"
  cat "$work/out"
  bad=1
}

cd "$work/r"
./dev test >"$work/out" 2>&1 || complain "failed"
tail -n 1 "$work/out" | grep -qxE '[0-9.]+ of 30 minutes without packages: [0-9.]+ to spare \([0-9.]+ processor minutes\)' ||
  complain "does not end with the minutes that are left"
grep -qE '^stage +minutes +processor$' "$work/out" || complain "no head of a table"
grep -qE '^release: build +[0-9.]+ +[0-9.]+  ok$' "$work/out" || complain "no row of a stage"

tool ctest 'exit 8'
status=0
./dev test >"$work/out" 2>&1 || status=$?
[ "$status" != 0 ] || complain "succeeded, though the tests fail"
grep -qE '^release: tests +[0-9.]+ +[0-9.]+  FAILED$' "$work/out" || complain "does not say which stage failed"
! grep -q 'of 30 minutes' "$work/out" || complain "compares a run that failed with the 30 minutes"
exit $bad
