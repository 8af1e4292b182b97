#!/bin/sh
# check_words.sh ROOT: what a machine can hold of the rules for words (CONTRIBUTING.md).
set -eu
cd "$1"

# A test's name, with its suite, is at most 60 characters, and names who or what instead of "nobody".
check_test_names() {
  grep -rnE '^(TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\(' tests --include='*.cc' --include='*.h' |
    awk '{
      place = $0
      sub(/:[A-Z_]*\(.*/, "", place)
      if ($0 !~ /\)/) print place ": a test name of more than one line, wanted at most 60 characters"
      match($0, /\([^)]*/)
      name = substr($0, RSTART + 1, RLENGTH - 1)
      sub(/, */, ".", name)
      if (length(name) > 60) print place ": " name " has " length(name) " characters, wanted at most 60"
      if (name ~ /Nobody|Somebody|Anybody|Whoever|ThatOne/) print place ": " name ": name the rank or the process instead"
    }'
}

bad=$(check_test_names)
[ -z "$bad" ] || { echo "$bad"; exit 1; }
