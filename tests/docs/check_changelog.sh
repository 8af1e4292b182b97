#!/bin/sh
# check_changelog.sh ROOT: CHANGELOG.md begins with "Unreleased", dates every other section, newest version first, and has
# fewer than 60 points in each and no line over 120 characters; core/base/version.h has the version of the newest one.
set -eu
cd "$1"
version=$(sed -n 's/.*kVersion = "\(.*\)";/\1/p' core/base/version.h)
awk -v version="$version" '
  function complain(text) { printf "CHANGELOG.md:%d: %s\n", FNR, text; bad = 1 }
  function number(v,  p) { split(v, p, "."); return (p[1] * 1000 + p[2]) * 1000 + p[3] }
  function end_section() {
    if (points >= 60) complain("the section \"" name "\" has " points " points; at most 59 are allowed")
    if (name != "Unreleased" && points == 0) complain("the section \"" name "\" has no points")
  }
  length($0) > 120 { complain("a line of more than 120 characters") }
  /^## / {
    if (sections++) end_section()
    name = substr($0, 4)
    points = 0
    if (sections == 1) {
      if (name != "Unreleased") complain("the first section is \"" name "\"; it has to be \"Unreleased\"")
      next
    }
    if (name !~ /^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*), [0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]$/) {
      complain("\"" name "\" is no version with a date, as in \"0.1.0, 2026-11-21\"")
      next
    }
    split(name, part, ", ")
    if (sections == 2 && part[1] != version) complain("the newest version is " part[1] "; core/base/version.h has " version)
    if (sections > 2 && number(part[1]) >= last) complain(part[1] " stands below a version that is not newer")
    last = number(part[1])
  }
  /^- / {
    points++
    if (!sections) complain("a point stands above the first section")
  }
  END {
    if (sections < 2) complain("there is no section of a version")
    end_section()
    exit bad
  }' CHANGELOG.md
