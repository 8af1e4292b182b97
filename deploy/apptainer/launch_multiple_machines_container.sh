#!/bin/sh
# launch_multiple_machines_container.sh SCRIPT HOST:RANKS[,HOST:RANKS...] IMAGE [ARGUMENTS...]: ranks on several machines, each in a
# container of its own:
#
#   launch_multiple_machines_container.sh distributed-training.py machine1:8,machine2:8 pytorch.sif
#
# dlrun is on every machine, and the script and the image on a file system that all see. No address or port is typed.
# Inside sbatch or salloc give the hosts as `slurm`: one rank a GPU of each node; without GPUs as many as dlrun starts there by itself, the
# tasks that the job has asked for (--ntasks-per-node), else one a node.
# APPTAINER_OPTIONS: --nv, the default, shows the GPUs; empty for machines without.
# It was not run with Apptainer itself, which was not to be had: a test has a program in its place.
set -eu
[ $# -ge 3 ] || { echo "usage: $0 SCRIPT HOST:RANKS[,HOST:RANKS...]|slurm IMAGE [ARGUMENTS...]" >&2; exit 2; }
script=$1
hosts=$2
image=$3
shift 3
ranks="--hosts $hosts"
if [ "$hosts" = slurm ]; then
  [ -n "${SLURM_JOB_ID-}" ] || {
    echo "$0: there is no SLURM allocation here: start it by sbatch or salloc, or write HOST:RANKS,... in place of slurm" >&2
    exit 2
  }
  ranks=
  [ "${SLURM_GPUS_ON_NODE:-0}" = 0 ] || ranks="--nproc-per-node $SLURM_GPUS_ON_NODE"
fi
case $script in
  *.py) set -- python3 -u "$script" "$@" ;;
  */*) set -- "$script" "$@" ;;
  *) if [ -f "$script" ]; then set -- "./$script" "$@"; else set -- "$script" "$@"; fi ;;
esac
# shellcheck disable=SC2086 # words
exec dlrun $ranks apptainer exec ${APPTAINER_OPTIONS---nv} "$image" "$@"
