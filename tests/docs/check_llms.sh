#!/bin/sh
# check_llms.sh ROOT: llms.txt has one line for each page of the documentation, with the page's title.
set -eu
cd "$1"
bad=0
for page in README.md CONTRIBUTING.md CHANGELOG.md tests/README.md $(find docs -name '*.md' | sort); do
  title=$(sed -n '1s/^# //p' "$page")
  [ "$(grep -cF "]($page): " llms.txt)" = 1 ] && grep -qF -e "- [$title]($page): " llms.txt || {
    echo "llms.txt wants one line \"- [$title]($page): what is in it\""
    bad=1
  }
done
for page in $(sed -n 's/^- \[[^]]*\](\([^)]*\)).*/\1/p' llms.txt); do
  [ -e "$page" ] || { echo "llms.txt names $page, which is not there"; bad=1; }
done
exit $bad
