#!/bin/sh
# check_lines.sh ROOT: no line of the documentation has more than 120 characters, in code and tables neither.
set -eu
cd "$1"
pages="CONTRIBUTING.md CHANGELOG.md $(find docs examples tests deploy -name '*.md' | sort)"
# shellcheck disable=SC2086  # no page has a blank in its path
if LC_ALL=C.UTF-8 grep -nHE '.{121}' $pages; then
  echo "these lines have more than 120 characters: wrap a paragraph, shorten a row or make the table a list, break a command with a backslash"
  exit 1
fi
