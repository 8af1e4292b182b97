#!/bin/sh
# check_includes.sh ROOT: every #include of one of the project's own files, held against rooms.txt.
set -eu
cd "$1"
find core nn rendezvous collectives launcher examples -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.def' 2>/dev/null | sort |
  xargs grep -n '^ *# *include *"' /dev/null |
  awk -v table=tests/layering/rooms.txt '
    # The longest room that is a prefix of the path, at a boundary: "collectives/init" fits init.cc and init/x.cc.
    function room_of(path,  best, r) {
      best = ""
      for (r in allowed) if (index(path, r) == 1 && substr(path, length(r) + 1, 1) ~ /^[\/.]?$/ && length(r) > length(best)) best = r
      return best
    }
    BEGIN {
      while ((getline line < table) > 0) {
        if (line ~ /^#/ || line == "") continue
        split(line, part, ":")
        n = split(part[2], rooms, " ")
        list = ""
        for (i = 1; i <= n; i++) list = list " " (rooms[i] in named ? named[rooms[i]] : rooms[i])
        if (line ~ /^@/) named[part[1]] = list
        else allowed[part[1]] = list
      }
    }
    {
      split($0, field, ":")
      from = field[1]
      match($0, /"[^"]*"/)
      to = substr($0, RSTART + 1, RLENGTH - 2)
      checked++
      if (to !~ /^(core|nn|rendezvous|collectives|launcher|examples)\//) {
        if (to ~ /\.pb\.h$/) next
        printf "%s:%s includes \"%s\": own files are included by their path from the root\n", from, field[2], to
        bad++
        next
      }
      a = room_of(from)
      b = room_of(to)
      if (a == "") { printf "%s stands in no room of %s\n", from, table; bad++; next }
      if (a == b) next
      n = split(allowed[a], rooms, " ")
      for (i = 1; i <= n; i++) if (b == rooms[i] || b "/." == rooms[i] || index(b, rooms[i] "/") == 1) next
      printf "%s:%s includes \"%s\": %s may not see %s\n", from, field[2], to, a, b == "" ? to : b
      bad++
    }
    END {
      if (checked < 10) { print "only " checked + 0 " includes found: is this the root of the project?"; exit 1 }
      printf "%d includes checked, %d against the table\n", checked, bad + 0
      exit bad > 0
    }'
