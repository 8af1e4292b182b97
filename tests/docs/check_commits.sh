#!/bin/sh
# check_commits.sh ROOT [BASE]: no commit since BASE changes more than 40 files, unless its message has the word "Moves" or
# "Generated": a reader and `git bisect` can use small commits only. Skipped (77) without a history that reaches BASE.
set -eu
cd "$1"
# The rule is younger than the commits up to this one.
base=${2-f4964abb7f46111b8824de1e0692cec98902a222}
skip() {
  echo "skipped: $*"
  exit 77
}
[ "$(git rev-parse --show-toplevel 2>/dev/null || true)" = "$(pwd -P)" ] || skip "this is no git clone"
git merge-base --is-ancestor "$base" HEAD 2>/dev/null || skip "the history here does not reach commit $base"
bad=0
for commit in $(git log --no-merges -M --shortstat --format='commit %H' "$base..HEAD" |
  awk '$1 == "commit" { commit = $2 } / files? changed/ && $1 > 40 { print commit }'); do
  git log -1 --format=%B "$commit" | grep -qwE 'Moves|Generated' && continue
  git log -1 --shortstat --format='commit %h "%s":' "$commit" | grep .
  bad=1
done
[ "$bad" = 0 ] || echo "more than 40 files: divide the commit, or say \"Moves\" or \"Generated\" in its message if it is nothing else"
exit "$bad"
