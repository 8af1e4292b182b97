#!/bin/sh
# release.sh VERSION (./dev release): tests the clean tree of branch main, sets the version, makes the bundle, then commits
# and tags. Nothing leaves this machine; the last lines say what to push. A failure undoes what was done until then.
set -eu
cd "$(dirname "$0")/.."
fail() {
  echo "release: $*" >&2
  exit 1
}
[ $# = 1 ] || fail "name one version, as in: ./dev release 1.2.3"
version=$1
tag=v$version
bundle=build/dlrun-$version-linux-x86_64
files="CHANGELOG.md core/base/version.h deploy/conda/recipe.yaml deploy/spack/package.py"

# ---- what a release needs -----------------------------------------------------------------------------------------------

check_tree() {
  [ "$(git symbolic-ref -q --short HEAD || true)" = main ] || fail "releases are made on branch main, which is not checked out"
  [ -z "$(git status --porcelain)" ] || fail "the tree is not clean; commit or remove what \`git status\` lists"
  ! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || fail "the tag $tag exists already"
}
[ "$(git rev-parse --show-toplevel 2>/dev/null || true)" = "$(pwd -P)" ] || fail "$(pwd -P) is not the root of a git clone"
cmake/set_version.sh --check "$version"
check_tree
git var GIT_COMMITTER_IDENT >/dev/null 2>&1 || fail "git does not know who you are; set user.name and user.email"
head=$(git rev-parse HEAD)

# ---- the release: what a failure has to undo is noted before it is done ---------------------------------------------------

edits=
bundles=
commit=
tags=
undo() {
  status=$?
  trap - EXIT
  [ -z "$tags" ] || git tag -d "$tag" >/dev/null 2>&1 || true
  if [ -n "$commit" ] && [ "$(git rev-parse HEAD)" = "$commit" ]; then git update-ref -m "release: undone" HEAD "$head"; fi
  # shellcheck disable=SC2086 # two files
  [ -z "$edits" ] || git restore --source "$head" --staged --worktree -- $files
  [ -z "$bundles" ] || rm -rf "$bundle" "$bundle.tar.zst"
  echo "release: $version was not made; files, commits and tags are as before" >&2
  exit "$status"
}
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
trap undo EXIT

./dev test || fail "./dev test failed"
# The tests take a while: what is released is what they have tested.
check_tree
[ "$(git rev-parse HEAD)" = "$head" ] || fail "main has new commits, which the tests have not seen"

edits=yes
cmake/set_version.sh "$version"
bundles=yes
./dev bundle || fail "./dev bundle failed"
# shellcheck disable=SC2086
git commit -q -m "Release $version" -m "Sets the version and dates the changelog's section." -- $files || fail "git commit failed"
commit=$(git rev-parse HEAD)
tags=yes
# verbatim: the section's headings begin with the sign of git's comments.
{
  printf 'dlrun %s\n' "$version"
  sed -n "/^## $version, /,/^## /p" CHANGELOG.md | sed '/^## /d'
} | git tag -a --cleanup=verbatim -F - "$tag" || fail "git tag failed"
trap - EXIT

echo
echo "dlrun $version is commit $(git rev-parse --short HEAD) with tag $tag. To publish it:"
echo "  git push --atomic origin main $tag"
echo "and attach $bundle.tar.zst to the release."
