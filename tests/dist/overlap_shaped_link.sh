#!/bin/sh
# overlap_shaped_link.sh [BIN_DIR [BATCH [ROUNDS]]]: how well DDP hides communication that takes as long as backward.
#
# Two network namespaces joined by a veth pair are two hosts; a token bucket at both ends is a slow link between them.
# The first run, on the bare link, says how long backward takes and how many bytes a pass sends. The link then gets the
# rate at which these bytes take that long, and the second run is the result. Exit 1 if backward with DDP takes more
# than 1.25 x the longer of backward and all-reduce, or if the hidden share that DDP prints is more than 0.15 away from
# what the clock says. Needs root, iproute2, and a machine with nothing else to do.
set -eu
bin=$(cd "${1:-build/release/bin}" && pwd)
batch=${2:-512}
rounds=${3:-25}
# shellcheck source=tests/support/two_hosts.sh
. "$(dirname -- "$0")/../support/two_hosts.sh"

# node HOST RANK ROUNDS: one rank on one host; both share a job key as if by a shared home.
node() {
  XDG_CONFIG_HOME=$dir OMP_NUM_THREADS=1 timeout 300 ip netns exec "$1" "$bin/dlrun" --nnodes 2 --node-rank "$2" \
    --rdzv-endpoint 10.0.0.1:29400 --nproc-per-node 1 "$bin/overlap_probe" --batch "$batch" --rounds "$3"
}
probe() {
  node $b 1 "$1" >"$dir/b" 2>&1 &
  peer=$!
  if ! node $a 0 "$1" >"$dir/a" || ! wait $peer; then
    cat "$dir/a" "$dir/b"
    exit 1
  fi
}
value() { awk -v key="\"$1\":" '{ for (i = 1; i < NF; i++) if ($i == key) { sub(/,$/, "", $(i + 1)); print $(i + 1) } }' "$dir/a"; }

probe 7
# A ring of two sends every byte once. 1448 of the 1514 bytes that tbf counts a packet are payload.
rate=$(awk -v ms="$(value backward_ms)" -v bytes="$(value gradient_bytes)" 'BEGIN { printf "%.0f", bytes * 8 / (ms / 1e3) * 1514 / 1448 / 1e3 }')
shape_hosts "${rate}kbit"

probe "$rounds"
echo "link ${rate} kbit/s each way; $(uname -r), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
sed 's/^\[rank 0\] //' "$dir/a"
awk -v ratio="$(value both_to_longer)" -v clock="$(value hidden_by_the_clock)" -v printed="$(value hidden_printed)" 'BEGIN {
  off = clock - printed; if (off < 0) off = -off
  if (ratio > 1.25) printf "backward with DDP takes %.2f x the longer of both, wanted at most 1.25\n", ratio
  if (off > 0.15) printf "DDP says %.2f was hidden, the clock says %.2f\n", printed, clock
  exit ratio > 1.25 || off > 0.15 }'
