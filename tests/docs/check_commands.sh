#!/bin/sh
# check_commands.sh ROOT WORK BIN FAKE_NVML: every line of the documentation that starts dlrun is one that dlrun takes.
#
# Lines of code blocks that begin with dlrun, with a prompt ("$ ", "node0$ ") or variables before it, and text between backticks that names a
# program, run with --dry-run as they stand, in a folder in which the programs that they name are stubs, and on a machine with eight GPUs that do not
# exist. " ... " and a remark in parentheses at the end are left out, and a single capital letter stands for a number. Subcommands
# have no --dry-run, so they run. A subcommand that needs a job or a host may fail, but not with exit code 2, which is for a wrong line.
set -u
root=$1 work=$2 bin=$3 nvml=$4
cd "$root" || exit 1
rm -rf "$work"
mkdir -p "$work/bin" "$work/run/build" "$work/run/log" "$work/run/node0/log" "$work/run/node1/log"
for program in bin/python bin/train_cnn bin/train_image bin/train_gpt bin/bench_train bin/dlbench bin/all_reduce_perf run/train run/build/train; do
  printf '#!/bin/sh\n' >"$work/$program"
  chmod +x "$work/$program"
done
: >"$work/run/train.py"
ln -s "$bin/dlrun" "$work/bin/dlrun"

# PAGE:LINE<tab>COMMAND
commands() {
  awk '
    function emit(command) { printf "%s:%d\t%s\n", FILENAME, FNR, command }
    FNR == 1 { fenced = 0; held = "" }
    /^ *```/ { fenced = !fenced; next }
    {
      line = held $0
      held = ""
      if ((fenced || $0 ~ /^    /) && line ~ /\\$/) {
        sub(/\\$/, "", line)
        held = line
        next
      }
      start = line
      sub(/^ *([a-z0-9]*\$ )?/, "", start)
      if ((fenced || line ~ /^    /) && start ~ /^([A-Z_]+=[^ ]+ )*dlrun /) emit(start)
      if (fenced) next
      while (match(line, /`[^`]*`/)) {
        text = substr(line, RSTART + 1, RLENGTH - 2)
        line = substr(line, RSTART + RLENGTH)
        if (text ~ /^([A-Z_]+=[^ ]+ )*dlrun .*( \.\/|dlbench|train|python|\/bin\/)/) emit(text)
      }
    }' README.md CONTRIBUTING.md CHANGELOG.md $(find docs examples -name '*.md' | sort)
}

commands >"$work/commands"
count=0
bad=0
tab=$(printf '\t')
while IFS="$tab" read -r place command; do
  command=$(printf '%s\n' "$command" | sed -e 's/   *(.*)$//' -e 's/ \.\.\. / /' -e 's/ [A-Z]\( \|$\)/ 2\1/g' -e 's/ \[options\]//')
  case $command in
    dlrun\ autopsy*) line=$command wanted="no 2" ;;
    dlrun\ topo\ --hosts*|dlrun\ ps*|dlrun\ kill*|dlrun\ doctor*) line=$command wanted="no 2" ;;
    dlrun\ topo*) line=$command wanted=0 ;;
    *) line=$(printf '%s\n' "$command" | sed 's/\(^\| \)dlrun /\1dlrun --dry-run /') wanted=0 ;;
  esac
  count=$((count + 1))
  (cd "$work/run" && PATH="$work/bin:$PATH" LD_LIBRARY_PATH="$nvml" FAKE_NVML=A,B,C,D,E,F,G,H sh -c "$line") >"$work/said" 2>&1 </dev/null
  code=$?
  { [ "$code" = 0 ] || { [ "$wanted" = "no 2" ] && [ "$code" != 2 ]; }; } || {
    echo "$place: $line ended with $code:"
    sed 's/^/  /' "$work/said"
    bad=1
  }
done <"$work/commands"
echo "$count commands"
[ "$count" -gt 0 ] || bad=1
exit $bad
