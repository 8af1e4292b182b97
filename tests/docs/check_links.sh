#!/bin/sh
# check_links.sh ROOT: every relative link in a Markdown file of the project leads to something.
set -eu
cd "$1"
bad=0
for page in README.md CONTRIBUTING.md CHANGELOG.md tests/README.md $(find docs examples -name '*.md' | sort); do
  for target in $(grep -o '](\([^)#: ]*\)[^):]*)' "$page" | sed 's/^](//; s/[#)].*$//' | sort -u); do
    [ -e "$(dirname "$page")/$target" ] || {
      echo "$page: the link to $target leads nowhere"
      bad=1
    }
  done
done
exit $bad
