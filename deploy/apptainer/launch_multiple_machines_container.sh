#!/bin/sh
# launch_multiple_machines_container.sh SCRIPT HOST:RANKS[,HOST:RANKS...] IMAGE [ARGUMENTS...]: ranks on several machines, each in a
# container of its own:
#
#   launch_multiple_machines_container.sh distributed-training.py machine1:8,machine2:8 pytorch.sif
#
# dlrun is on every machine, and the script and the image on a file system that all see. No address or port is typed. Inside sbatch give
# the hosts as `slurm`. APPTAINER_OPTIONS: --nv, the default, shows the GPUs; empty for machines without.
# It was not run with Apptainer itself, which was not to be had: a test has a program in its place.
set -eu
[ $# -ge 3 ] || { echo "usage: $0 SCRIPT HOST:RANKS[,HOST:RANKS...]|slurm IMAGE [ARGUMENTS...]" >&2; exit 2; }
script=$1
hosts=$2
image=$3
shift 3
if [ "$hosts" = slurm ]; then set -- --nproc-per-node "${SLURM_GPUS_ON_NODE:-1}" -- "$@"; else set -- --hosts "$hosts" -- "$@"; fi
option=$1
value=$2
shift 3
case $script in
  *.py) set -- python3 -u "$script" "$@" ;;
  */*) set -- "$script" "$@" ;;
  *) if [ -f "$script" ]; then set -- "./$script" "$@"; else set -- "$script" "$@"; fi ;;
esac
# shellcheck disable=SC2086 # words
exec dlrun "$option" "$value" apptainer exec ${APPTAINER_OPTIONS---nv} "$image" "$@"
