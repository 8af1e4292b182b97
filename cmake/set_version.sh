#!/bin/sh
# set_version.sh [--check] VERSION: what `./dev release` changes in files. core/base/version.h and the recipes of Spack and conda get the
# version, and the section "Unreleased" of CHANGELOG.md gets the version and today's date (UTC); an empty "Unreleased" stands above it.
# Changes nothing with --check, and nothing if the version or the section is not fit for a release.
set -eu
cd "$(dirname "$0")/.."
fail() {
  echo "release: $*" >&2
  exit 1
}
check=
if [ "${1-}" = --check ]; then
  check=yes
  shift
fi
version=${1-}
[ $# = 1 ] || fail "name one version, as in 1.2.3"
form='(0|[1-9][0-9]{0,2})'
case $version in
  *[!0-9.]*) fits= ;;
  *) fits=$(echo "$version" | grep -xE "$form\.$form\.$form" || true) ;;
esac
[ -n "$fits" ] || fail "'$version' is not a version; write three numbers below 1000, as in 1.2.3"
present=$(sed -n 's/.*kVersion = "\(.*\)";/\1/p' core/base/version.h)
number() { echo "$1" | awk -F. '{ print ($1 * 1000 + $2) * 1000 + $3 }'; }
[ "$(number "$version")" -gt "$(number "$present")" ] || fail "$version is not greater than the present version, $present"
tests/docs/check_changelog.sh . >&2 || fail "CHANGELOG.md is not in order, as said above"
points=$(sed -n '/^## Unreleased$/,/^## [0-9]/p' CHANGELOG.md | grep -c '^- ' || true)
[ "$points" -gt 0 ] || fail "the section \"Unreleased\" of CHANGELOG.md has no points"
[ -z "$check" ] || exit 0

# set_in FILE EXPRESSION: into the file itself, whose permissions stay.
set_in() {
  new=$(sed "$2" "$1")
  printf '%s\n' "$new" >"$1"
}
set_in CHANGELOG.md "s/^## Unreleased\$/&\n\n## $version, $(date -u +%Y-%m-%d)/"
set_in core/base/version.h "s/\(kVersion = \"\).*\";/\1$version\";/"
set_in deploy/spack/package.py "s/\(version(\"\).*\")/\1$version\")/; s/dlrun@[0-9.]*/dlrun@$version/"
set_in deploy/conda/recipe.yaml "s/^\(  version: \"\).*\"/\1$version\"/"
