# Checks comments: prints FILE:LINE: what is wrong. Used by check_words.sh. With -v hash=1 comments begin with `#`, as in CMake, shell and
# Python; else with `//`, and tables in them are checked, too.
#
# A table in a comment has rows of a key, two spaces or more, and a text; keys begin three spaces after the slashes:
#
#   //   input   [N, C] floating
#   //   weight  [C], or undefined; its second line begins below
#   //           the first one
#
# All texts of a table begin in one column. clang-format joins the lines of a table that is too wide; then they do not.

function complain(line, text) { print FILENAME ":" line ": " text }

function check_words_of(comment,  words) {
  words = tolower(comment)
  gsub(/`[^`]*`/, "", words)
  if (words ~ /(^|[^a-z_])where($|[^a-z_(])/) complain(FNR, "\"where\" in a comment; write \"if\", \"when\" or \"in which\" (the operation is `where`)")
  if (match(words, /(^|[^a-z])(whoever|nobody|somebody)($|[^a-z])/)) complain(FNR, "name the rank, thread or process instead of whoever, nobody or somebody")
  if (words ~ /(^|[^a-z])that one($|[.,;:)]| (is|was|has|had|may|can|does|goes|will|would|fails|waits|dies|ends)($|[^a-z]))/) complain(FNR, "name the thing instead of \"that one\"")
}

hash {
  # A `#` in quotes, or after another character than a blank ("$#", "a#b"), begins no comment.
  code = $0
  if (code !~ /^[ \t]*#/) gsub(/"([^"\\]|\\.)*"|'[^']*'/, "", code)
  if (match(code, /(^|[ \t])#[ \t]*[^ \t!]/)) check_words_of(substr(code, RSTART))
  next
}

FNR == 1 { column = 0 }

!/\/\// { column = 0; next }

{
  comment = $0
  # Addresses and strings are no comments.
  if (comment !~ /^[ \t]*\/\//) gsub(/"([^"\\]|\\.)*"/, "\"\"", comment)
  start = match(comment, /(^|[^:])\/\//)
  if (!start) next
  comment = substr(comment, start)
  sub(/^[^\/]*\/\//, "", comment)

  check_words_of(comment)
}

/clang-format off/ { is_free = 1 }
/clang-format on/ { is_free = 0 }
FNR == 1 { is_free = 0 }
is_free { column = 0; next }

match($0, /^[ \t]*\/\/   [A-Za-z_]([-A-Za-z_0-9, ]*[A-Za-z_0-9])?  +[^ ]/) {
  at = RSTART + RLENGTH - 1
  if (column && at != column) complain(FNR, "the text of this row does not begin in the column of the row above; put the table between clang-format off and on")
  column = at
  next
}
column && match($0, /\/\/ +[^ ]/) {
  at = RSTART + RLENGTH - 1
  indent = RLENGTH - 3
  # A key may be any code; its text begins in the column, too.
  if (indent == 3 && substr($0, column - 1, 2) ~ /^ [^ ]/) next
  if (indent >= 3 && at != column) complain(FNR, "this line belongs to no row of the table above; put the table between clang-format off and on")
  if (indent < 3) column = 0
  next
}
{ column = 0 }
