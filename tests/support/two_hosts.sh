# Sourced by scripts that need two hosts: network namespaces $a (10.0.0.1) and $b (10.0.0.2), joined by a veth pair whose ends are eth0,
# and a folder $dir. They go when the script ends, and what still runs on them. two_hosts.h is the same for tests in C++.
# shellcheck shell=sh
a=dlrun-hosts-$$-a
b=dlrun-hosts-$$-b
dir=$(mktemp -d)
clean_up_hosts() {
  for host in $a $b; do
    ip netns pids $host 2>/dev/null | xargs -r kill 2>/dev/null || true
  done
  wait
  for host in $a $b; do
    ip netns delete $host 2>/dev/null || true
  done
  rm -rf "$dir"
}
trap clean_up_hosts EXIT
trap 'exit 1' HUP INT TERM

ip netns add $a
ip netns add $b
ip link add eth0 netns $a type veth peer name eth0 netns $b
ip -n $a address add 10.0.0.1/24 dev eth0
ip -n $b address add 10.0.0.2/24 dev eth0
for host in $a $b; do
  ip -n $host link set lo up
  ip -n $host link set eth0 up
done

# shape_hosts RATE: both directions, RATE as tc takes it.
shape_hosts() {
  for host in $a $b; do tc -n $host qdisc replace dev eth0 root tbf rate "$1" burst 256kb latency 20ms; done
}
