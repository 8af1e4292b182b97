#!/bin/sh
# shards.sh N PROGRAM [ARGUMENTS]: runs a GoogleTest program as N processes at once, each with its share of the tests. For tests that wait
# more than they compute: for a product's own deadlines, or for a host that does not answer.
set -u
n=$1
shift
out=$(mktemp -d)
pids=
# shellcheck disable=SC2086 # a list of words
trap 'kill $pids 2>/dev/null; rm -rf "$out"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
i=0
while [ "$i" -lt "$n" ]; do
  GTEST_TOTAL_SHARDS=$n GTEST_SHARD_INDEX=$i "$@" >"$out/$i" 2>&1 &
  pids="$pids $!"
  i=$((i + 1))
done
status=0
i=0
for pid in $pids; do
  wait "$pid" || status=1
  cat "$out/$i"
  i=$((i + 1))
done
pids=
exit $status
