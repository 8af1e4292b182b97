# Breaks long items of a Markdown list, each a line, into lines of at most 118 characters; code between backquotes stays on one line.
{
  line = "-"
  n = split(substr($0, 3), words, " ")
  for (i = 1; i <= n; ++i) {
    word = words[i]
    while (gsub(/`/, "`", word) % 2 == 1 && i < n) word = word " " words[++i]
    if (length(line) + 1 + length(word) > 118) {
      print line
      line = " "
    }
    line = line " " word
  }
  print line
}
