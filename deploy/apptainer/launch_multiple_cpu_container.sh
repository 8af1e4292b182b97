#!/bin/sh
# launch_multiple_cpu_container.sh SCRIPT NPROC IMAGE [ARGUMENTS...]: NPROC ranks of a script on this machine, in one container:
#
#   launch_multiple_cpu_container.sh pytorch_ddp.py 2 pytorch.sif
#
# dlrun is in the image (deploy/apptainer/dlrun.def, or `pip install dlrun-*.whl` in one of your own). For GPUs: APPTAINER_OPTIONS=--nv.
# It was not run with Apptainer itself, which was not to be had: a test has a program in its place.
set -eu
[ $# -ge 3 ] || { echo "usage: $0 SCRIPT NPROC IMAGE [ARGUMENTS...]" >&2; exit 2; }
script=$1
ranks=$2
image=$3
shift 3
# A script by its name alone stands in this folder.
case $script in */*) ;; *) [ ! -f "$script" ] || script=./$script ;; esac
# shellcheck disable=SC2086 # words
exec apptainer exec ${APPTAINER_OPTIONS-} "$image" dlrun --nproc-per-node "$ranks" "$script" "$@"
