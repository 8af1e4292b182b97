#!/bin/sh
# scripts_test.sh SOURCE: the words that the scripts of deploy/ give to podman and to dlrun, which programs that print them stand for here,
# and what the scripts say of a wrong line.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
for program in dlrun podman; do
  printf '#!/bin/sh\necho "%s $*"\n' $program >"$work/bin/$program"
  chmod +x "$work/bin/$program"
done
export PATH="$work/bin:$PATH"
unset SLURM_JOB_ID SLURM_GPUS_ON_NODE APPTAINER_OPTIONS TAG TARGETS BUILDER
bad=0
expect() { # CODE TEXT COMMAND...
  wanted=$1
  text=$2
  shift 2
  code=0
  "$@" >"$work/out" 2>&1 || code=$?
  if [ $code != "$wanted" ] || ! grep -qF -e "$text" "$work/out"; then
    cat "$work/out"
    echo "ended with $code, wanted $wanted and the text '$text': $*"
    bad=1
  fi
}

# ---- ranks in containers --------------------------------------------------------------------------------------------------

machines=$source/deploy/apptainer/launch_multiple_machines_container.sh
expect 0 'dlrun --hosts a:2,b:2 apptainer exec --nv x.sif python3 -u t.py --lr 1' "$machines" t.py a:2,b:2 x.sif --lr 1
expect 0 'dlrun apptainer exec --nv x.sif train --lr 1' env SLURM_JOB_ID=1 "$machines" train slurm x.sif --lr 1
expect 0 'dlrun apptainer exec --nv x.sif train' env SLURM_JOB_ID=1 SLURM_GPUS_ON_NODE=0 "$machines" train slurm x.sif
expect 0 'dlrun --nproc-per-node 8 apptainer exec --nv x.sif train' env SLURM_JOB_ID=1 SLURM_GPUS_ON_NODE=8 "$machines" train slurm x.sif
expect 2 'there is no SLURM allocation here: start it by sbatch or salloc' "$machines" train slurm x.sif
expect 2 'usage: ' "$machines" train slurm
expect 2 'usage: ' "$source/deploy/apptainer/launch_multiple_cpu_container.sh" train 2
expect 2 'usage: ' "$source/deploy/container/podman_rank"
expect 2 'usage: ' "$source/deploy/container/podman_rank" dlrun:latest
expect 0 ' dlrun:latest train_cnn --epochs 1' "$source/deploy/container/podman_rank" dlrun:latest train_cnn --epochs 1

# ---- the images: of a repository with two commits -------------------------------------------------------------------------

mkdir -p "$work/tree/deploy/container"
cp "$source/deploy/container/build.sh" "$source/deploy/container/Containerfile" "$work/tree/deploy/container/"
git="git -C $work/tree -c user.name=a -c user.email=a@b -c init.defaultBranch=main -c commit.gpgsign=false"
$git init -q
$git add .
$git commit -q -m one
one=$($git rev-parse HEAD)
$git commit -q --allow-empty -m two
two=$($git rev-parse HEAD)
build=$work/tree/deploy/container/build.sh
short() { $git rev-parse --short "$1"; }
expect 0 "revision=$two " "$build"
expect 0 " -t dlrun:$(short "$two") -t dlrun:latest " "$build"
expect 0 " -t dlrun-devel:$(short "$two") -t dlrun-devel:latest --build-arg TRAINING=OFF /" "$build" --build-arg TRAINING=OFF
expect 0 "revision=$one " "$build" "$one" --build-arg TRAINING=OFF
expect 0 " -t dlrun:$(short "$one") -t dlrun:latest --build-arg TRAINING=OFF /" "$build" "$one" --build-arg TRAINING=OFF
expect 0 ' -t dlrun:mine /' env TAG=mine "$build"
! grep -q latest "$work/out" || { echo "a TAG is not the only one"; bad=1; }
expect 0 'build.sh [COMMIT] [OPTIONS...]' "$build" --help
! grep -q podman.build "$work/out" || { echo "--help builds"; bad=1; }
expect 2 'there is no commit nosuch; usage: ' "$build" nosuch
exit $bad
