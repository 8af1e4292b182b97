#!/bin/sh
# Measures how much of a slow link between two hosts an operation uses that sends both ways at once.
set -eu
usage() {
  cat <<'END'
Usage: shaped_link.sh [BIN_DIR [RATE_MBIT [BYTES]]]        (build/release/bin 1000 64M)

Times all_reduce and sendrecv over TCP between two network namespaces, the hosts, joined by a veth
pair that `tbf rate R burst 256kb latency 20ms` shapes at both ends. Of the 1514 bytes that tbf counts
a full packet, 1448 are payload: that is the ceiling. Needs root, iproute2 and a machine with nothing
else to do. Exit code 1 where a median stays below 95 % of the ceiling.

JSON=FILE keeps dlbench's rows.
END
}
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  -*) usage >&2; exit 2 ;;
esac
bin=${1:-build/release/bin}
[ -x "$bin/dlrun" ] && [ -x "$bin/dlbench" ] || {
  echo "shaped_link.sh: there is no dlrun and dlbench in $bin; build them, or name their folder" >&2
  exit 2
}
bin=$(cd "$bin" && pwd)
rate=${2:-1000}
bytes=${3:-64M}
# shellcheck source=tests/support/two_hosts.sh
. "$(dirname -- "$0")/../../tests/support/two_hosts.sh"
shape_hosts "${rate}mbit"

# node HOST RANK OPERATION: one rank on one host; both share a job key as if by a shared home.
node() {
  XDG_CONFIG_HOME=$dir OMP_NUM_THREADS=1 ip netns exec "$1" timeout 120 "$bin/dlrun" --nnodes 2 --node-rank "$2" \
    --rdzv-endpoint 10.0.0.1:29400 --iface eth0 --nproc-per-node 1 --no-prefix \
    "$bin/dlbench" "$3" --backend tcp -b "$bytes" -e "$bytes" -n 25 -w 2 --json
}

echo "link $rate Mbit/s each way; $(uname -r), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(sysctl -n net.ipv4.tcp_congestion_control)"
status=0
for operation in all_reduce sendrecv; do
  node $b 1 $operation >"$dir/b" 2>&1 &
  peer=$!
  if ! node $a 0 $operation >"$dir/a" || ! wait $peer; then
    cat "$dir/a" "$dir/b" >&2
    exit 1
  fi
  [ -z "${JSON:-}" ] || grep '^{' "$dir/a" >>"$JSON"
  # With two ranks each sends every byte once.
  sed 's/[{},]//g' "$dir/a" | awk -v rate="$rate" -v operation=$operation '
    function value(key,  i) { for (i = 1; i < NF; i++) if ($i == "\"" key "\":") return $(i + 1) }
    value("p50_us") {
      share = value("bytes") * 8 / value("p50_us") / (rate * 1448 / 1514)
      printf "%s of %d bytes, %s: %.1f ms (median), %.1f ms (least): %.1f %% of the ceiling\n", operation, value("bytes"),
             value("in_place") == "true" ? "in place" : "out of place", value("p50_us") / 1e3, value("min_us") / 1e3, 100 * share
      low = low || share < 0.95
      found = 1
    }
    END { exit low || !found }' || status=1
done
exit $status
