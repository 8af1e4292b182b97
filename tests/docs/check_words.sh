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

# Comments of C++, and tables in them: words.awk says the rules.
check_comments() {
  find core nn launcher collectives rendezvous examples tests -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.c' -o -name '*.def' -o -name '*.proto' |
    LC_ALL=C sort | xargs awk -f tests/docs/words.awk
}

# Comments that begin with `#`.
check_hash_comments() {
  {
    find . -path ./build -prune -o -path ./.git -prune -o -type f \( -name CMakeLists.txt -o -name '*.cmake' -o -name '*.sh' -o -name '*.py' -o -name '*.awk' -o -name '*.sbatch' \) -print
    printf '%s\n' ./dev ./.ci/run
  } | grep -v '^./tests/docs/\(words.awk\|check_words.sh\)$' | LC_ALL=C sort | xargs awk -v hash=1 -f tests/docs/words.awk
}

# Texts of the library, the service and dlrun reach users of C, C++ and Python: they name what is common to the three. What only a
# program in C can do wrong (NULL, the structures' own fields) names C's function. spawn() and the tensor calls are C++'s alone.
check_texts() {
  find collectives rendezvous launcher -name '*.cc' -o -name '*.h' |
    grep -v '^collectives/\(bench\|tensor\)/\|^collectives/init/spawn.cc\|^launcher/plan/torch_backend.cc' | LC_ALL=C sort |
    xargs grep -nE '^[^/]*"' /dev/null | awk '{
      place = $0
      sub(/:[^:0-9].*/, "", place)
      rest = substr($0, length(place) + 1)
      while (match(rest, /"([^"\\]|\\.)*"/)) {
        text = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (text !~ / / || text ~ /NULL|struct_size|is not a dl_|no displacements|displacements come|DL_COMM_OPTIONS_INIT/) continue
        if (text ~ /(^|[^a-z_])(dl_[a-z]|dl::|premul_|(init|destroy)_process_group|default_group|[a-z]+_symmetric)/)
          print place ": " text " names a function as one language does; say what it does"
      }
    }'
}

check_sample() { # SAMPLE VARIABLE
  found=$(printf '%s\n' "$1" | awk -v "${2:-hash=0}" -f tests/docs/words.awk | sed 's/^[^0-9]*\([0-9]*\):.*/\1/' | sort -nu | tr '\n' ' ')
  wanted=$(printf '%s\n' "$1" | grep -n 'wrong$' | cut -d: -f1 | tr '\n' ' ')
  [ "$found" = "$wanted" ] || echo "tests/docs/words.awk finds lines $found of its sample, wanted $wanted"
}

# words.awk itself: each line here that says "wrong" is found, and no other one.
check_rules() {
  sample='// Throws where it is empty.  wrong
int i;  // Nobody waits, and that one is gone.  wrong
const char* where = "// where";  // `where` is an operation; that one rank waits
//   input   [N, C]
//   weight  [C], or undefined; its second line
//           continues here
//   so bias  [C]  wrong
// clang-format off
//   bias  [C]
// clang-format on'
  check_sample "$sample" ''
  sample='# A program; installed where INSTALL is given.  wrong
set(where ON)  # whoever asks  wrong
echo "# where"  # `where` is an operation
case $# in where) ;; esac'
  check_sample "$sample" hash=1
}

bad=$(check_test_names; check_texts; check_rules; check_comments; check_hash_comments)
[ -z "$bad" ] || { echo "$bad"; exit 1; }
