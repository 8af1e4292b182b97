#!/bin/sh
# wheel.sh BUILD FOLDER (./dev wheel)
# Makes a wheel of the Python package into FOLDER, out of the release build in BUILD: with dlrun, dlbench, the C interface's library, and the
# libraries that these need and that not every Linux has. They lie in the package (dlrun/bin, dlrun/lib), so that they meet no other
# library of the environment, and find each other by their own place ($ORIGIN).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=$1
folder=$2
programs="dlrun dlrun-rendezvous dlrun-srun dlbench"

rm -rf "$build/wheel"
mkdir -p "$build/wheel" "$folder"
"$here/bundle.sh" "$build" "$build/wheel/bundle"
bundle=$build/wheel/bundle
stage=$build/wheel/stage
cp -r "$here/../collectives/python" "$stage"
find "$stage" -name __pycache__ -prune -exec rm -rf {} +
package=$stage/dlrun
mkdir "$package/bin" "$package/lib"
for program in $programs; do cp "$bundle/bin/$program" "$package/bin/"; done
# A wheel holds no links, so the library has only the name by which it is loaded. The modules for MPI need the cluster's MPI.
cp -L "$bundle/lib/libdl_comm.so.1" "$bundle/lib/libdlrun_rendezvous.so" "$package/lib/"
for module in "$bundle"/lib/libdlrun_mpi_*.so; do
  [ ! -e "$module" ] || cp "$module" "$package/lib/"
done
# Python and its packages share one C++ runtime, the system's: one of ours, if loaded first, would be too old for theirs.
for file in "$package"/bin/* "$package/lib/libdl_comm.so.1" "$package/lib/libdlrun_rendezvous.so"; do
  ldd "$file" | sed -n 's/^[[:space:]]*\([^ ]*\) => .*/\1/p'
done | sort -u | while read -r name; do
  case $name in libstdc++.so.* | libgcc_s.so.*) continue ;; esac
  [ ! -f "$bundle/lib/$name" ] || cp "$bundle/lib/$name" "$package/lib/"
done
cp -r "$bundle/share/doc/dlrun" "$package/licences"

newest() { # GLIBC_2 or GLIBCXX_3.4: the newest version of it that a file here asks for
  find "$package/bin" "$package/lib" -type f -exec objdump -T {} + 2>/dev/null | sed -n "s/.*\*UND\*.*($1\.\([0-9]*\)).*/\1/p" | sort -un | tail -n 1
}
glibc=$(newest GLIBC_2)
# What RHEL 9 has.
[ "$glibc" -le 34 ] && [ "$(newest GLIBCXX_3.4)" -le 29 ] || {
  echo "wheel: a file asks for glibc 2.$glibc and GLIBCXX_3.4.$(newest GLIBCXX_3.4), and the wheel shall run with 2.34 and 3.4.29" >&2
  exit 1
}
DLRUN_WHEEL_VERSION=$(sed -n 's/.*kVersion = "\(.*\)";/\1/p' "$here/../core/base/version.h")
DLRUN_WHEEL_PLATFORM=manylinux_2_${glibc}_$(uname -m)
export DLRUN_WHEEL_VERSION DLRUN_WHEEL_PLATFORM
# Debian's Python, whose setuptools and wheel `./dev wheel` installs.
(cd "$stage" && "${PYTHON:-/usr/bin/python3}" setup.py --quiet bdist_wheel --dist-dir "$build/wheel/dist") >"$build/wheel/log" 2>&1 || {
  cat "$build/wheel/log"
  exit 1
}
cp "$build"/wheel/dist/*.whl "$folder/"
rm -rf "$build/wheel/stage" "$bundle"
ls -l "$build"/wheel/dist/*.whl | awk '{ printf "%s: %.1f MB\n", $NF, $5 / 1e6 }'
