#!/bin/sh
# build.sh [COMMIT [OPTIONS...]]: builds the images dlrun and dlrun-devel of a commit (HEAD), with its files alone and its time on every
# file, so that the same commit gives the same layers. OPTIONS go to the builder, as --build-arg TRAINING=OFF.
#
#   BUILDER  podman (the default), buildah
#   TAG      the images' tag (the commit's short name)
#   TARGETS  which images ("dlrun dlrun-devel")
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
commit=$(git -C "$root" rev-parse --verify "${1:-HEAD}^{commit}")
[ $# -eq 0 ] || shift
tag=${TAG:-$(git -C "$root" rev-parse --short "$commit")}
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
trap 'exit 1' HUP INT TERM
git -C "$root" archive "$commit" | tar -C "$context" -x
for target in ${TARGETS:-dlrun dlrun-devel}; do
  "${BUILDER:-podman}" build --layers --timestamp "$(git -C "$root" log -1 --format=%ct "$commit")" --target "$target" \
    --label org.opencontainers.image.title="$target" --label org.opencontainers.image.revision="$commit" \
    --label org.opencontainers.image.licenses=Apache-2.0 -f "$context/deploy/container/Containerfile" -t "$target:$tag" "$@" "$context"
done
