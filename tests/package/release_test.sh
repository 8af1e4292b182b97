#!/bin/sh
# release_test.sh SOURCE: cmake/release.sh in repositories that have its files and, instead of ./dev, a program that notes
# what was asked of it. A release that fails leaves nothing; one that succeeds leaves a commit, a tag and a bundle.
set -eu
command -v git >/dev/null || { echo "skipped: no git here"; exit 77; }
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Nothing of the user's configuration: neither names nor hooks nor signatures.
export HOME="$work" XDG_CONFIG_HOME="$work" GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES="$work"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

# What a failed release may not change.
cat >"$work/state" <<'END'
#!/bin/sh
echo "$(git rev-parse HEAD) $(git symbolic-ref -q HEAD) $(git status --porcelain) $(git diff HEAD | cksum) $(git tag)"
END
chmod +x "$work/state"

# A repository of version 0.1.0 with two unreleased points. ./dev notes its command in .git/asked and runs .git/on-COMMAND.
make_repository() {
  rm -rf "$work/r"
  mkdir -p "$work/r/cmake" "$work/r/core/base" "$work/r/tests/docs" "$work/r/deploy/conda" "$work/r/deploy/spack"
  cd "$work/r"
  cp "$source/cmake/release.sh" "$source/cmake/set_version.sh" cmake/
  cp "$source/tests/docs/check_changelog.sh" tests/docs/
  sed 's/kVersion = ".*"/kVersion = "0.1.0"/' "$source/core/base/version.h" >core/base/version.h
  sed '/^  version:/s/".*"/"0.1.0"/' "$source/deploy/conda/recipe.yaml" >deploy/conda/recipe.yaml
  sed 's/ version(".*")/ version("0.1.0")/; s/dlrun@[0-9.]*/dlrun@0.1.0/' "$source/deploy/spack/package.py" >deploy/spack/package.py
  printf '# Changelog\n\n## Unreleased\n\nWords.\n\n### Core\n\n- A \\t\n- B\n\n## 0.1.0, 2026-01-01\n\n- C\n' >CHANGELOG.md
  echo build/ >.gitignore
  cat >dev <<'END'
#!/bin/sh
set -eu
echo "$1" >>.git/asked
if [ "$1" = bundle ]; then
  mkdir -p build
  : >"build/dlrun-$(sed -n 's/.*kVersion = "\(.*\)";/\1/p' core/base/version.h)-linux-x86_64.tar.zst"
fi
[ ! -e ".git/on-$1" ] || . ".git/on-$1"
END
  chmod +x dev
  git init -q -b main .
  git add .
  git commit -q -m first
}

bad=0
complain() {
  echo "$name: $*"
  bad=1
}

# refused SENTENCE VERSION: the release ends with 1 and the sentence, and changes nothing that was there when it began or that
# the note `.git/kept` has put there meanwhile.
refused() {
  before=$(../state)
  if cmake/release.sh "$2" >"$work/out" 2>"$work/errors"; then complain "succeeded"; fi
  if [ -e .git/kept ]; then before=$(cat .git/kept); fi
  grep -qF "release: $1" "$work/errors" || complain "expected '$1', got: $(cat "$work/errors")"
  [ "$(../state)" = "$before" ] || complain "changed the repository: $(../state)"
  [ -z "$(ls build 2>/dev/null)" ] || complain "left a bundle"
}

name="a version's form"
make_repository
for version in '' 1.2 1.2.3.4 01.2.3 1.2.x 1.2.3-rc1 v1.2.3 1.2.1000 "0.2.0
0.3.0"; do refused "'$version' is not a version" "$version"; done
refused "0.1.0 is not greater than the present version, 0.1.0" 0.1.0
refused "0.0.9 is not greater" 0.0.9
[ ! -e .git/asked ] || complain "asked ./dev for something"

name="a tree that is not clean"
make_repository
echo new >untracked
refused "the tree is not clean" 0.2.0

name="another branch"
make_repository
git checkout -q -b other
refused "releases are made on branch main" 0.2.0

name="a tag that is there"
make_repository
git tag v0.2.0
refused "the tag v0.2.0 exists already" 0.2.0

name="no points"
make_repository
sed -i '/^- [AB]/d' CHANGELOG.md
git commit -qam none
refused 'the section "Unreleased" of CHANGELOG.md has no points' 0.2.0

name="60 points"
make_repository
sed -i "s/^- B\$/$(yes -- '- B' | head -n 59 | tr '\n' '|' | sed 's/|$//; s/|/\\n/g')/" CHANGELOG.md
git commit -qam many
refused "CHANGELOG.md is not in order" 0.2.0
grep -qF 'has 60 points' "$work/errors" || complain "does not name the number: $(cat "$work/errors")"

name="no name of a committer"
make_repository
git config user.useConfigOnly true
(
  unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
  refused "git does not know who you are" 0.2.0
  exit $bad
) || bad=1

name="tests that fail"
make_repository
echo 'exit 3' >.git/on-test
refused "./dev test failed" 0.2.0
grep -qF "files, commits and tags are as before" "$work/errors" || complain "$(cat "$work/errors")"

name="an edit during the tests"
make_repository
cat >.git/on-test <<'END'
echo "- D" >>CHANGELOG.md
../state >.git/kept
END
refused "the tree is not clean" 0.2.0
grep -qx -- '- D' CHANGELOG.md || complain "the edit is lost"

name="a commit during the tests"
make_repository
cat >.git/on-test <<'END'
echo "- D" >>CHANGELOG.md
git commit -qam meanwhile
../state >.git/kept
END
refused "main has new commits" 0.2.0
[ "$(git log -1 --format=%s)" = meanwhile ] || complain "the commit is lost"

name="a bundle that fails"
make_repository
echo 'exit 3' >.git/on-bundle
refused "./dev bundle failed" 0.2.0

name="a commit that fails"
make_repository
printf '#!/bin/sh\nexit 1\n' >.git/hooks/pre-commit
chmod +x .git/hooks/pre-commit
refused "git commit failed" 0.2.0

name="a tag that fails"
make_repository
# Another tag's folder is in the way of the file v0.2.0.
git tag v0.2.0/x
refused "git tag failed" 0.2.0

name="a signal during the bundle"
make_repository
# The release's shell is the parent of ./dev, and sees the signal when ./dev has ended.
echo "kill -TERM \$PPID" >.git/on-bundle
before=$(../state)
status=0
cmake/release.sh 0.2.0 >"$work/out" 2>&1 || status=$?
[ $status = 143 ] || complain "ended with $status"
[ "$(../state)" = "$before" ] || complain "changed the repository: $(../state)"
[ -z "$(ls build)" ] || complain "left a bundle"

name="a release"
make_repository
cmake/release.sh 0.2.0 >"$work/out" 2>&1 || complain "failed: $(cat "$work/out")"
[ "$(tr '\n' ' ' <.git/asked)" = "test bundle " ] || complain "asked for $(cat .git/asked)"
[ -z "$(git status --porcelain)" ] || complain "left changes"
[ "$(git diff --name-only HEAD~1 | tr '\n' ' ')" = "CHANGELOG.md core/base/version.h deploy/conda/recipe.yaml deploy/spack/package.py " ] || complain "changed other files"
lines() { git diff --numstat HEAD~1 -- "$1" | cut -f1,2 | tr '\t' ' '; }
[ "$(lines core/base/version.h)" = "1 1" ] || complain "changed more than one line of version.h"
[ "$(lines deploy/conda/recipe.yaml)" = "1 1" ] || complain "changed more than one line of recipe.yaml"
[ "$(lines deploy/spack/package.py)" = "2 2" ] || complain "changed more than two lines of package.py"
[ "$(grep -F 0.2.0 deploy/conda/recipe.yaml deploy/spack/package.py | wc -l)" = 3 ] || complain "no version in the recipes"
[ "$(lines CHANGELOG.md)" = "2 0" ] || complain "changed the changelog's text"
grep -qF 'kVersion = "0.2.0"' core/base/version.h || complain "no version"
grep -qxE '## 0\.2\.0, [0-9]{4}-[0-9]{2}-[0-9]{2}' CHANGELOG.md || complain "no section"
tests/docs/check_changelog.sh . || complain "the changelog is not in order"
[ "$(git cat-file -t v0.2.0)" = tag ] || complain "the tag is not annotated"
[ "$(git rev-parse 'v0.2.0^{commit}')" = "$(git rev-parse HEAD)" ] || complain "the tag is not at the commit"
git for-each-ref --format='%(contents)' refs/tags/v0.2.0 >"$work/tag"
printf 'dlrun 0.2.0\n\nWords.\n\n### Core\n\n- A \\t\n- B\n' | diff -B - "$work/tag" || complain "the tag says: $(cat "$work/tag")"
[ -e build/dlrun-0.2.0-linux-x86_64.tar.zst ] || complain "no bundle"
grep -qF 'git push --atomic origin main v0.2.0' "$work/out" || complain "does not say what to push: $(cat "$work/out")"
name="a second release without a change"
rm -r build
refused 'the section "Unreleased" of CHANGELOG.md has no points' 0.3.0

exit $bad
