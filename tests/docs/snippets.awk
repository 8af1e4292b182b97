# Takes the C++ (or C) blocks out of a page, or out of the comments of headers, as one translation unit on stdout; nothing if there is none.
#
#   awk -v root=/dlrun/ -v want=cpp -f snippets.awk page.md
#   awk -v root=/dlrun/ -v want=header -v table=tests/docs/headers.txt -f snippets.awk core/*/*.h ...
#
# A block is compiled as what it is: a program (it has a main), declarations (it begins with a class, struct, enum or template, or with a
# comment `<!-- cpp: declarations -->`), or statements, the body of a function. What statements use and do not declare are the parameters of
# that function, in a comment before the block: `<!-- cpp: given nn::Module& model, int rank -->`. A line of nothing but `...` is left out.
# After `<!-- cpp: list -->` or `<!-- cpp: list given ... -->` comes a numbered list, whose items "- dlrun:" are compiled: what stands between
# backquotes in an item is a block of its own.
# Statements and declarations are inside a namespace of their own, with `using namespace dl`. A page is read from its top: it includes what
# its blocks include, or <dlrun.h> if none includes anything.
#
# Headers: a block is a run of comment lines that are indented by at least three blanks, one of which ends with ; { or }. It stands in the
# header's namespace. The table has a row `header | given ...` for what it uses, `header | text` for what is no C++, and lines of #include.

function fail(line, text) {
  printf "%s:%d: %s\n", page, line, text > "/dev/stderr"
  failed = 1
}

function code_like(line) {
  sub(/ *\/\/.*$/, "", line)
  sub(/[ \t]+$/, "", line)
  return line ~ /[;{}]$/ || line ~ /^ *#include/
}

function begin_block(line) {
  ++blocks
  first[blocks] = line
  file[blocks] = page
  count[blocks] = 0
  directive[blocks] = pending
  space[blocks] = namespace
  pending = ""
}

function add_line(text) { body[blocks, ++count[blocks]] = text }

# program, declarations or statements
function kind_of(b,   i, text) {
  for (i = 1; i <= count[b]; ++i) {
    if (body[b, i] ~ /^int main\(/) return "program"
  }
  if (directive[b] == "declarations") return "declarations"
  for (i = 1; i <= count[b]; ++i) {
    text = body[b, i]
    if (text ~ /^ *$/ || text ~ /^ *\/\// || text ~ /^ *#/) continue
    return text ~ /^ *(class|struct|enum|template) / ? "declarations" : "statements"
  }
  return "statements"
}

function emit_body(b,   i, text) {
  printf "/* block */\n#line %d \"%s\"\n", first[b], file[b]
  for (i = 1; i <= count[b]; ++i) {
    text = body[b, i]
    if (text ~ /^ *#include/ || text ~ /^ *\.\.\. *(\/\/.*)?$/) text = ""
    print text
  }
}

function emit(b,   kind, given) {
  kind = kind_of(b)
  given = directive[b]
  if (given == "declarations" || given == "") {
    given = ""
  } else if (given !~ /^given /) {
    page = file[b]
    fail(first[b], "\"cpp: " given "\" is not known; wanted \"cpp: declarations\" or \"cpp: given ...\"")
  }
  sub(/^given /, "", given)
  if (kind == "program") {
    if (++programs > 1) {
      page = file[b]
      fail(first[b], "a second program on this page; write statements")
    }
    emit_body(b)
    return
  }
  if (want != "c") {
    if (space[b] != "") printf "namespace %s {\n", space[b]
    printf "namespace snippet_%d_%d {\nusing namespace dl;\n", b, first[b]
  }
  # `auto`, so that statements may return something.
  if (kind == "statements") printf "%s(%s) {\n", want == "c" ? "void run" b : "auto run", given == "" && want == "c" ? "void" : given
  emit_body(b)
  if (kind == "statements") print "}"
  if (want != "c") print space[b] != "" ? "}\n}" : "}"
}

# Markdown

# Takes the code out of a line of an item "- dlrun:".
function item_line(line,   found) {
  if (line ~ /^ *- dlrun:/) {
    end_item()
    in_item = 1
    item_row = FNR
    pending = list_given
    begin_block(FNR)
  }
  while (match(line, /`[^`]*`/)) {
    add_line(substr(line, RSTART + 1, RLENGTH - 2))
    line = substr(line, RSTART + RLENGTH)
  }
}

function end_item() {
  if (in_item && count[blocks] == 0) fail(item_row, "this item has no code")
  in_item = 0
}

function markdown_line(line) {
  if (pending ~ /^list/ && !in_directive && line ~ /^[0-9]+\. /) {
    list_given = pending
    sub(/^list */, "", list_given)
    pending = ""
    in_list = 1
  }
  if (in_list && line != "" && line !~ /^([0-9]+\.)? /) in_list = 0
  if (want == "cpp") {
    if (in_list && (line ~ /^ *- dlrun:/ || (in_item && line ~ /^ +[^- ]/))) item_line(line)
    else end_item()
  }
  if (in_list) return
  if (in_directive || (!fenced && line ~ /^ *<!-- *cpp:/)) {
    in_directive = line !~ /-->/
    sub(/^ *<!-- *cpp: */, "", line)
    sub(/ *-->.*$/, "", line)
    sub(/^ +/, "", line)
    pending = pending (pending == "" ? "" : " ") line
    directive_line = FNR
    return
  }
  if (line ~ /^ *```/) {
    if (fenced) {
      fenced = 0
      return
    }
    fenced = 1
    language = line
    sub(/^ *```/, "", language)
    taken = language == want
    if (language !~ /^(|c|cpp|sh|cmake|python|json|text)$/) fail(FNR, "a block of an unknown language, \"" language "\"")
    if (pending != "" && language != "cpp" && language != "c") fail(directive_line, "a comment \"cpp: ...\" that no block of C++ follows")
    if (taken) begin_block(FNR + 1)
    pending = ""
    return
  }
  if (fenced) {
    if (taken) add_line(line)
    else if (want == "cpp" && language == "" && code_like(line)) fail(FNR, "this looks like code: label the block cpp, or text where it is none")
    return
  }
  if (want == "cpp" && line ~ /^    / && code_like(line)) fail(FNR, "this looks like code: put it between ```cpp and ```")
}

# Headers

function read_table(   row, parts) {
  while ((getline row < table) > 0) {
    if (row ~ /^#include/) includes = includes row "\n"
    if (row ~ /^#/ || row ~ /^ *$/) continue
    split(row, parts, / *\| */)
    rows[parts[1]] = parts[2]
  }
}

function end_run() {
  if (run > 0 && run_code) {
    used[page] = 1
    if (rows[page] != "text") {
      pending = rows[page]
      begin_block(run_first)
      for (i = 1; i <= run; ++i) add_line(run_line[i])
      included = included "#include \"" page "\"\n"
    }
  }
  run = 0
  run_code = 0
}

function header_line(line) {
  if (line ~ /^namespace dl/) {
    namespace = line
    sub(/^namespace /, "", namespace)
    sub(/ .*$/, "", namespace)
    # The comment at the top of a header comes before its namespace, and that after those of forward declarations.
    for (i = 1; i <= blocks; ++i) {
      if (file[i] == page) space[i] = namespace
    }
  }
  if (line ~ /^ *\/\/   +[^ ]/ || (run > 0 && line ~ /^ *\/\/$/)) {
    if (run == 0) run_first = FNR
    sub(/^ *\/\/ ? ? ?/, "", line)
    run_line[++run] = line
    if (code_like(line)) run_code = 1
  } else {
    end_run()
  }
}

BEGIN {
  if (want == "header") read_table()
}

FNR == 1 {
  if (want == "header" && NR > 1) end_run()
  page = FILENAME
  if (index(page, root) == 1) page = substr(page, length(root) + 1)
  namespace = ""
}

{
  if (want == "header") header_line($0)
  else markdown_line($0)
}

END {
  end_item()
  if (want == "header") {
    end_run()
    for (row in rows) {
      if (!(row in used)) {
        page = table
        fail(0, "has a row for " row ", which has no block of code")
      }
    }
  }
  for (b = 1; b <= blocks; ++b) {
    for (i = 1; i <= count[b]; ++i) {
      if (body[b, i] ~ /^ *#include/) {
        sub(/^ */, "", body[b, i])
        own = own sprintf("#line %d \"%s\"\n%s\n", first[b] + i - 1, file[b], body[b, i])
      }
    }
  }
  if (blocks > 0) {
    if (want == "header") printf "#include <dlrun.h>\n%s%s", includes, included
    else printf "%s", own != "" ? own : "#include <dlrun.h>\n"
    for (b = 1; b <= blocks; ++b) emit(b)
  }
  exit failed
}
