#!/bin/sh
# check_layers.sh ROOT: the list of docs/reference/layers.md is what the headers of nn/layers declare. check_layers.sh ROOT --write writes it.
set -eu
cd "$1"
layers=$(find nn/layers -name '*.h' | LC_ALL=C sort)
page=docs/reference/layers.md
made=$(awk -f tests/docs/layers.awk nn/functional/functional.h core/ops/loss/loss.h nn/functional/activations.def nn/functional/losses.def $layers | LC_ALL=C sort -f)
list=$(printf '%s\n' "$made" | awk -f tests/docs/wrap.awk)
# Classes that are no module of their own beside those that the list has.
for class in $(sed -n 's/^class \([A-Za-z0-9]*\) : public \(Module\|BatchNorm\|Loss\|PadNd\|detail::RNNBase\|detail::RNNCellBase\) {$/\1/p' $layers); do
  case $class in BatchNorm | PadNd | Loss | RNNBase | RNNCellBase) continue ;; esac
  printf '%s\n' "$made" | grep -q "^- \`$class(" || { echo "$page: tests/docs/layers.awk finds no constructor of $class"; exit 1; }
done
if [ "${2-}" = --write ]; then
  { sed '/^- `/,$d' "$page"; printf '%s\n' "$list"; } > "$page.new"
  mv "$page.new" "$page"
fi
[ "$list" = "$(sed -n '/^- `/,$p' "$page")" ] || {
  echo "$page differs from the headers of nn/layers; write it with: tests/docs/check_layers.sh . --write"
  exit 1
}
