#!/bin/sh
# bundle.sh BUILD FOLDER [TEST PROGRAMS...]
# Makes FOLDER out of the release build in BUILD: the programs, with every library that they need and that a Linux with a C library does
# not have beside them. Programs find them by their own place ($ORIGIN), so that the folder may lie anywhere. Test programs come into
# tests/, bench_train beside the other programs, and gpu-figures, which runs them all on a machine with a GPU.
set -eu
build=$1
folder=$2
shift 2
case $folder in /*) ;; *) folder=$PWD/$folder ;; esac
if [ -e "$folder" ] && [ ! -f "$folder/README" ]; then
  echo "bundle: $folder is there already and is no bundle" >&2
  exit 1
fi
rm -rf "$folder"

# ---- what every machine has, or must bring itself -----------------------------------------------------------------------

# The C library is one thing with its kernel and its configuration. The driver's libraries belong to the kernel's module. CUDA's, cuDNN's
# and NCCL's are large, licensed apart, and on every GPU machine, on which libdlrun_*.so look for them. An MPI is its cluster's own.
is_the_systems() { # SONAME
  case $1 in
    ld-linux*.so* | libc.so.* | libm.so.* | libmvec.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | libutil.so.*) return 0 ;;
    libcuda.so* | libnvidia-*.so*) return 0 ;;
    libcublas*.so* | libcudart.so* | libcudnn*.so* | libnccl.so* | libnvrtc*.so* | libnvJitLink.so*) return 0 ;;
    libmpi*.so* | libopen-rte.so* | libopen-pal.so*) return 0 ;;
  esac
  return 1
}

needed_by() { # FILE: "SONAME PATH" a line, PATH empty if the loader does not find it
  ldd "$1" 2>/dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) => \(\/[^ ]*\).*/\1 \2/p; s/^[[:space:]]*\([^ ]*\) => not found.*/\1 /p'
}

# ---- programs and libraries ------------------------------------------------------------------------------------------------

cmake --install "$build" --prefix "$folder" >"$build/bundle.log"
# For building against dlrun there is `cmake --install`: that takes the machine's compiler and packages.
rm -rf "$folder/include" "$folder"/lib*/cmake "$folder"/lib*/pkgconfig
find "$folder" -name '*.a' -delete
# The names of nccl-tests: links in the build, copies in an installation.
for name in "$folder"/bin/*_perf; do ln -sf dlbench "$name"; done
if [ $# -gt 0 ]; then
  mkdir "$folder/tests"
  cp "$build/bin/bench_train" "$folder/bin/"
  for program; do cp "$build/tests/$program" "$folder/tests/"; done
  # shellcheck disable=SC2016 # expanded when it runs
  printf '%s\n' '#!/bin/sh' '# Every test program in turn; a test that lacks a GPU, or a file of the sources, says so and is skipped.' \
    'here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)' 'status=0' 'for t in "$here"/tests/*; do' \
    '  DLRUN_TEST_BIN=$here/bin DLRUN_TEST_SOURCE=$here/share/dlrun "$t" "$@" || status=1' 'done' 'exit $status' >"$folder/run-tests"
  # The one file of the sources that tests on a GPU read.
  mkdir -p "$folder/share/dlrun/tests/parity/arrays" "$folder/gpu"
  cp "$(dirname "$0")/../tests/parity/arrays/composed.safetensors" "$folder/share/dlrun/tests/parity/arrays/"
  cp "$(dirname "$0")"/../tests/gpu/*.py "$folder/gpu/"
  rm "$folder"/gpu/*_test.py
  # shellcheck disable=SC2016
  printf '%s\n' '#!/bin/sh' '# Tests, training, failures and times on a GPU: ./gpu-figures ten, or --help.' \
    'exec "${PYTHON:-python3}" -B "$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)/gpu/figures.py" "$@"' >"$folder/gpu-figures"
  chmod +x "$folder/run-tests" "$folder/gpu-figures"
fi
binaries() { find "$folder/bin" "$folder/lib" ${1:+"$folder/tests"} -type f; }
tests=$([ $# -eq 0 ] || echo yes)
# shellcheck disable=SC2046 # no file of ours has a space in its name
strip --strip-unneeded $(binaries "$tests")

binaries "$tests" | while read -r file; do
  case $file in */libdlrun_mpi_*) continue ;; esac
  needed_by "$file"
done | sort -u | while read -r name path; do
  if is_the_systems "$name" || [ -e "$folder/lib/$name" ]; then continue; fi
  [ -n "$path" ] || { echo "bundle: $name is needed and is not on this machine" >&2; exit 1; }
  cp -L "$path" "$folder/lib/$name"
  chmod 644 "$folder/lib/$name"
  echo "$name $path"
done >"$build/bundle.libraries"

# ---- licences --------------------------------------------------------------------------------------------------------------

licences=$folder/share/doc/dlrun
mkdir -p "$licences"
cp "$(dirname "$0")/../LICENSE" "$licences/"
version=$(sed -n 's/.*kVersion = "\(.*\)";/\1/p' "$(dirname "$0")/../core/base/version.h")
# shellcheck disable=SC2046 # no library has a space in its name
"$(dirname "$0")/materials.sh" dlrun "$version" "$licences/LICENCES" "$licences/dlrun.spdx.json" $(cut -d' ' -f2 "$build/bundle.libraries")
# Debian's copyright files name the common licences without quoting them.
cp -rL /usr/share/common-licenses "$licences/common-licenses"

# ---- what holds of it ------------------------------------------------------------------------------------------------------

# shellcheck disable=SC2046
glibc=$(objdump -T $(binaries "$tests") 2>/dev/null | grep -o 'GLIBC_2\.[0-9.]*' | sort -Vu | tail -n 1)
cat >"$folder/README" <<TEXT
dlrun for x86-64 Linux with glibc ${glibc#GLIBC_} or newer. Lies anywhere: bin/dlrun, bin/train_cnn, bin/dlbench.

lib/ holds what the programs need beside the C library. They use it before the system's own, and nothing else on the machine does.
GPUs: the driver, cuBLASLt, cuDNN 9 and NCCL are the machine's, wherever its loader, CUDA_HOME, /usr/local/cuda or a Python
environment (nvidia/*/lib) has them. share/doc/dlrun holds the licences.
TEXT
for file in $(binaries "$tests"); do
  # What is carried is found on behalf of these.
  case $file in */libdlrun_mpi_*) continue ;; */libdl*.so* | "$folder"/bin/* | "$folder"/tests/*) ;; *) continue ;; esac
  needed_by "$file" | while read -r name path; do
    case $path in "$folder"/*) continue ;; esac
    is_the_systems "$name" || { echo "bundle: ${file#"$folder"/} takes $name from ${path:-nowhere}" >&2; exit 1; }
  done
done
