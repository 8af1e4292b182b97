#!/bin/sh
# build.sh [COMMIT] [OPTIONS...]: builds the images dlrun and dlrun-devel of a commit (HEAD), with its files alone and its time on every
# file, so that the same commit gives the same layers. OPTIONS go to the builder, as --build-arg TRAINING=OFF.
#
#   BUILDER  podman (the default), buildah
#   TAG      the images' only tag; without it they have two, the commit's short name and `latest`
#   TARGETS  which images ("dlrun dlrun-devel")
set -eu
case ${1-} in -h | --help) sed -n '2,/^set/{/^set/d; s/^# \{0,1\}//; p;}' "$0"; exit 0 ;; esac
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
name=HEAD
case ${1--} in -*) ;; *) name=$1; shift ;; esac
commit=$(git -C "$root" rev-parse --quiet --verify "$name^{commit}") || {
  echo "$0: there is no commit $name; usage: $0 [COMMIT] [OPTIONS...]" >&2
  exit 2
}
tags=${TAG:-$(git -C "$root" rev-parse --short "$commit") latest}
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
trap 'exit 1' HUP INT TERM
git -C "$root" archive "$commit" | tar -C "$context" -x
for target in ${TARGETS:-dlrun dlrun-devel}; do
  named=
  for tag in $tags; do named="$named -t $target:$tag"; done
  # shellcheck disable=SC2086 # words
  "${BUILDER:-podman}" build --layers --timestamp "$(git -C "$root" log -1 --format=%ct "$commit")" --target "$target" \
    --label org.opencontainers.image.title="$target" --label org.opencontainers.image.revision="$commit" \
    --label org.opencontainers.image.licenses=Apache-2.0 -f "$context/deploy/container/Containerfile" $named "$@" "$context"
done
