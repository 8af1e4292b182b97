# The items of docs/reference/layers.md, a line each: each class of nn/layers with its constructor and its options, as the headers have them.
# Structs of options come first among the files, then lists of rows, then classes.

function trimmed(text) {
  gsub(/^[ \t]+|[ \t]+$/, "", text)
  gsub(/[ \t]+/, " ", text)
  return text
}

# What stands in the list: shorter names of types.
function shown(text) {
  gsub(/std::int64_t/, "int64", text)
  gsub(/std::(string|optional|vector)/, "&", text)
  gsub(/std::/, "", text)
  gsub(/const |&/, "", text)
  return trimmed(text)
}

function row(layer, parameters, list,    i, n, parts, part, text, kind) {
  text = ""
  n = split_parameters(parameters, parts)
  for (i = 1; i <= n; ++i) {
    part = trimmed(parts[i])
    if (match(part, /^(const )?(functional::)?[A-Za-z0-9]+Options/)) {
      kind = substr(part, RSTART, RLENGTH)
      sub(/^const /, "", kind)
      sub(/^functional::/, "", kind)
      if (!(kind in options)) {
        print "layers.awk: " layer " has unknown options " kind > "/dev/stderr"
        failed = 1
      }
      list = options[kind]
      part = "{...}"
    } else {
      part = shown(part)
    }
    text = text (i > 1 ? ", " : "") part
  }
  rows[++count] = "- `" layer "(" text ")`" (list == "" ? "" : ": " list)
}

# Divides at commas outside of angle brackets and braces.
function split_parameters(text, parts,    i, c, depth, n) {
  delete parts
  n = 0
  depth = 0
  if (trimmed(text) == "") return 0
  parts[n = 1] = ""
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    if (c ~ /[<{(]/) ++depth
    if (c ~ /[>})]/) --depth
    if (c == "," && depth == 0) {
      parts[++n] = ""
      continue
    }
    parts[n] = parts[n] c
  }
  return n
}

# The text up to the parenthesis that closes the first one.
function inside_of(text,    i, c, depth) {
  depth = 0
  for (i = index(text, "("); i <= length(text); ++i) {
    c = substr(text, i, 1)
    if (c == "(") ++depth
    if (c == ")" && --depth == 0) return substr(text, index(text, "(") + 1, i - index(text, "(") - 1)
  }
  return "?"
}

{
  code = $0
  sub(/[ \t]*\/\/.*$/, "", code)
}

# Options
code ~ /^struct [A-Za-z0-9]+Options/ {
  struct = $2
  sub(/[^A-Za-z0-9].*/, "", struct)
  options[struct] = ""
  field = ""
  next
}
struct != "" && code ~ /^};/ { struct = ""; next }
struct != "" {
  field = trimmed(field " " code)
  if (field ~ /;$/) {
    sub(/;$/, "", field)
    text = ""
    if (match(field, /[A-Za-z0-9_]+ = /)) {
      text = "." substr(field, RSTART)
    } else if (match(field, /[A-Za-z0-9_]+\{[^}]*\}$/)) {
      text = "." substr(field, RSTART)
      sub(/\{\}$/, "", text)
    } else if (field !~ /[(]/ && match(field, /[A-Za-z0-9_]+$/)) {
      text = "." substr(field, RSTART)
    }
    if (text != "" && text !~ /^\.operator/) {
      options[struct] = options[struct] (options[struct] == "" ? "" : ", ") "`" text "`"
    }
    field = ""
  }
  next
}

# Rows of lists
/^DL_ACTIVATION\(/ { split($0, cell, /[(,]/); row(cell[2], "ActivationOptions given") ; next }
/^DL_PLAIN_ACTIVATION\(/ { split($0, cell, /[(,]/); row(cell[2], ""); next }
/^DL_LOSS(_OF_THREE|_OF_FOUR)?\(/ { split($0, cell, /[(,]/); row(cell[2], cell[2] "Options given"); next }
/^#define DL_DROPOUTS/ {
  text = $0
  while (match(text, /row\([A-Za-z0-9]+\)/)) {
    name = substr(text, RSTART + 4, RLENGTH - 5)
    text = substr(text, RSTART + RLENGTH)
    row(name, "double p = 0.5")
  }
  next
}
/row\([A-Za-z]+Pad[123]d/ {
  text = $0
  while (match(text, /row\([A-Za-z0-9]+/)) {
    name = substr(text, RSTART + 4, RLENGTH - 4)
    text = substr(text, RSTART + RLENGTH)
    row(name, "Padding padding")
  }
  next
}
/^DL_PAD\([A-Z][A-Za-z]+[123]d/ { split($0, cell, /[(,]/); row(cell[2], "Padding padding, double value"); next }

# Classes
/\\$/ { next }
code ~ /^class [A-Za-z0-9]+ : public (Module|BatchNorm|Loss|detail::RNN(Cell)?Base) / {
  class = $2
  constructor = ""
  is_abstract = 1
  next
}
class != "" && code ~ /^};/ {
  if (is_abstract == 1 && constructor == "" && class == "Identity") row(class, "")
  class = ""
  next
}
class != "" && (constructor != "" || code ~ "^  (explicit )?" class "\\(") {
  constructor = constructor " " trimmed(code)
  if (constructor ~ /[;{}]$/ || constructor ~ /\) :/) {
    text = inside_of(constructor)
    if (!(class in seen) && class != "BatchNorm" && class != "PadNd" && class !~ /^RNN(Cell)?Base$/) row(class, text)
    seen[class] = 1
    constructor = ""
    is_abstract = 0
  }
}

END {
  if (failed) exit 1
  for (i = 1; i <= count; ++i) print rows[i]
}
