#!/bin/sh
# containers.sh BUILD SOURCE [FOLDER]: builds the images of deploy/container and runs them, by hand. Takes root, podman, mmdebstrap (which
# makes the base, so that no registry is asked) and Debian's archive; TRAINING=OFF leaves the training library out and takes a third of
# the time. Everything is in a folder of its own, which is removed, except for FOLDER if one is given: what is built there is built once.
set -eu
build=$1
source=$2
if [ "$(id -u)" != 0 ] || ! command -v podman >/dev/null || ! command -v mmdebstrap >/dev/null; then
  echo "skipped: wants root, podman and mmdebstrap"
  exit 77
fi
# crun takes no mixture of control groups v1 and v2.
if [ -d /sys/fs/cgroup/unified ]; then
  # shellcheck disable=SC2016 # expanded by the inner shell
  exec unshare -m sh -euc 'umount -l /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"' sh "$0" "$@"
fi
work=$(mktemp -d)
store=${3:-$work/store}
mkdir -p "$store" "$work/bin"
clean_up() {
  podman ps -aq | xargs -r podman rm -f -t 0 >/dev/null 2>&1 || true
  podman secret rm key >/dev/null 2>&1 || true
  # Root of a storage folder: podman's own mounts lie in it.
  umount "$store/storage/overlay" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
real=$(command -v podman)
printf '#!/bin/sh\nexec %s --root %s/storage --runroot %s/run "$@"\n' "$real" "$store" "$store" >"$work/bin/podman"
printf '[containers]\ndefault_ulimits = ["nofile=1024:4096", "nproc=4096:8192"]\ncgroups = "disabled"\n' >"$work/containers.conf"
chmod +x "$work/bin/podman"
export PATH="$work/bin:$build/bin:$PATH" CONTAINERS_CONF="$work/containers.conf" BUILDAH_ISOLATION=chroot XDG_CONFIG_HOME="$work"

say() { printf '== %s\n' "$*"; }
expect() { # WANTED-CODE TEXT COMMAND...
  wanted=$1
  text=$2
  shift 2
  code=0
  "$@" >"$work/out" 2>&1 || code=$?
  if [ $code != "$wanted" ] || ! grep -qF -- "$text" "$work/out"; then
    cat "$work/out"
    echo "ended with $code, wanted $wanted and the text '$text': $*"
    exit 1
  fi
}

# ---- the images -----------------------------------------------------------------------------------------------------------

say "a base of Debian's packages"
podman image exists localhost/base || {
  SOURCE_DATE_EPOCH=1 mmdebstrap --quiet --variant=minbase bookworm "$work/base.tar"
  podman import --quiet "$work/base.tar" localhost/base >/dev/null
}
commit=$(git -C "$source" rev-parse HEAD)
make_images() { # TAG TRAINING TARGETS [OPTIONS...]
  tag=$1
  training=$2
  targets=$3
  shift 3
  TAG=$tag TARGETS=$targets "$source/deploy/container/build.sh" "$commit" --network host --build-arg BASE=localhost/base \
    --build-arg TRAINING="$training" "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
}
say "the images"
if ! podman image exists localhost/dlrun:test || ! podman image exists localhost/dlrun-devel:test; then
  make_images test "${TRAINING:-ON}" "dlrun dlrun-devel"
fi
podman images --format '{{.Repository}} {{.Size}}' | sort

# ---- dlrun inside ---------------------------------------------------------------------------------------------------------

as_a_pod="--rm --network none --read-only --tmpfs /tmp:size=64m --shm-size 64m --cap-drop all --security-opt no-new-privileges --user 54321"
say "two ranks of a user without a name, with a read-only root, no network and no capability"
# shellcheck disable=SC2086 # words
expect 0 'Out of bounds values : 0 OK' podman run $as_a_pod -e DLRUN_BACKEND=shm dlrun:test dlrun -n 2 dlbench all_reduce -b 8 -e 1M -f 8 -n 5
if [ "${TRAINING:-ON}" = ON ]; then
  # shellcheck disable=SC2086
  expect 0 accuracy podman run $as_a_pod dlrun:test dlrun -n 2 train_cnn --epochs 1
fi
# shellcheck disable=SC2086
expect 0 'cores' podman run $as_a_pod dlrun:test dlrun -n 2 --bind even --report-bindings true

say "podman stop: dlrun ends a rank that ignores SIGTERM before podman kills all"
# shellcheck disable=SC2016 # expanded by the rank
podman run -d --name stubborn dlrun:test dlrun sh -c 'trap "" TERM; echo up; while :; do sleep 1; done' >/dev/null
until podman logs stubborn | grep -q up; do :; done
podman stop stubborn >/dev/null
[ "$(podman wait stubborn)" = 143 ] || { echo "ended with $(podman wait stubborn), wanted 143"; exit 1; }

say "two pods with a secret as the key"
printf '7%.0s' $(seq 64) | podman secret create key - >/dev/null
for node in 0 1; do
  podman run -d --name node$node --network host --secret key,mode=0400,uid=54321 --user 54321 -e PET_NNODES=2 -e PET_NODE_RANK=$node \
    -e PET_RDZV_ENDPOINT=127.0.0.1:29477 -e PET_NPROC_PER_NODE=2 dlrun:test dlrun --key-file /run/secrets/key dlbench all_reduce -b 8 -e 1K -n 5 >/dev/null
done
for node in 0 1; do [ "$(podman wait node$node)" = 0 ] || { podman logs node$node; exit 1; }; done

# ---- dlrun outside --------------------------------------------------------------------------------------------------------

rank=$source/deploy/container/podman_rank
# Without control groups (above) podman gives no container the host's PID namespace.
export PODMAN_OPTIONS="--pid private"
say "ranks in containers of their own share memory"
expect 0 'Out of bounds values : 0 OK' env DLRUN_BACKEND=shm dlrun -n 2 "$rank" dlrun:test dlbench all_reduce -b 8 -e 1M -f 8 -n 5
say "one that fails is named, and its code is dlrun's"
# shellcheck disable=SC2016 # expanded by the rank
expect 5 'rank 1 (node 0' dlrun -n 2 "$rank" dlrun:test sh -c 'test $RANK = 1 && exit 5; trap "exit 0" TERM; sleep 300 & wait'
[ -z "$(podman ps -q)" ] || { podman ps; echo "a container is left"; exit 1; }
say "kill -9 of dlrun leaves no container's process"
"$build/bin/dlrun" -n 2 "$rank" dlrun:test sh -c 'echo up; exec sleep 4711' >"$work/out" 2>&1 &
job=$!
until [ "$(grep -c up "$work/out")" = 2 ]; do :; done
kill -KILL $job
for _ in $(seq 300); do pgrep -f 'sleep 4711' >/dev/null || break; sleep 0.1; done
! pgrep -f 'sleep 4711' || { echo "these are left"; exit 1; }

# ---- building against it, and the same again ------------------------------------------------------------------------------

say "a program is built in dlrun-devel"
mkdir "$work/program"
if [ "${TRAINING:-ON}" = ON ]; then cp "$source/tests/package/CMakeLists.txt" "$source/tests/package/main.cc" "$work/program/"; else
  printf '#include <collectives/init/init.h>\n#include <cstdio>\nint main() { dl::init_process_group(); std::printf("dlrun %%d\\n", dl::world_size()); }\n' >"$work/program/main.cc"
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(outside LANGUAGES CXX)\nfind_package(dlrun REQUIRED)\nadd_executable(outside main.cc)\ntarget_link_libraries(outside PRIVATE dlrun::init)\n' >"$work/program/CMakeLists.txt"
fi
chmod 777 "$work" "$work/program"
expect 0 'dlrun ' podman run --rm --network none --user 54321 --tmpfs /tmp:exec -v "$work/program:/program" dlrun-devel:test \
  sh -euc 'cmake -G Ninja -S /program -B /tmp/build >/tmp/log && cmake --build /tmp/build >>/tmp/log && cp /tmp/build/outside /program/ && dlrun -n 2 /program/outside'
say "and runs in dlrun"
# shellcheck disable=SC2086 # words
expect 0 'dlrun ' podman run $as_a_pod -v "$work/program:/program:ro" dlrun:test dlrun -n 2 /program/outside

say "the same commit gives the same layers"
layers() { podman image inspect --format '{{.RootFS.Layers}}' "$1"; }
make_images again1 OFF dlrun --no-cache
make_images again2 OFF dlrun --no-cache
[ "$(layers dlrun:again1)" = "$(layers dlrun:again2)" ] || { layers dlrun:again1; layers dlrun:again2; exit 1; }
echo "all is as it should be"
