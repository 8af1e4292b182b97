#!/bin/sh
# check_files.sh ROOT: the sizes of folders and files. A folder has at most 12 loose source files, lists (*.def) aside; a file has at
# most 500 lines; and at most MOST_SMALL files have under 20. Outside of collectives/ these are left, each with its reason:
#   core/base/sanitizers.h              macros alone, for headers and tests that need nothing else
#   core/base/version.h                 `./dev release` and CMake read and write it
#   core/device/cuda/module/no_cuda.cc  stands in for open.cc in a build without CUDA
#   core/kernels/cuda/runtime/probe.cu  the only file of the runtime that nvcc has to compile
#   launcher/srun/log_inside.cc         compiles the log into dlrun-srun; dlrun has none
set -eu
cd "$1"
MOST_SMALL=13
find core nn rendezvous collectives launcher -type f \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.c' -o -name '*.proto' \) |
  sort | xargs wc -l |
  awk -v most_small="$MOST_SMALL" '
    $2 == "total" { next }
    {
      files++
      folder = $2
      sub(/\/[^\/]*$/, "", folder)
      if (++loose[folder] == 13) folders[++many] = folder
      if ($1 > 500) { printf "%s has %d lines, at most 500: divide it by what it is about\n", $2, $1; bad++ }
      if ($1 < 20) small[++smalls] = sprintf("%s has %d lines", $2, $1)
    }
    END {
      if (files < 10) { print "only " files + 0 " source files found: is this the root of the project?"; exit 1 }
      for (i = 1; i <= many; i++) {
        printf "%s has %d loose source files, at most 12: make folders of it, each with a row in rooms.txt\n", folders[i], loose[folders[i]]
        bad++
      }
      if (smalls > most_small) {
        printf "%d files have under 20 lines, at most %d: let the new one join a neighbour\n", smalls, most_small
        for (i = 1; i <= smalls; i++) print "  " small[i]
        bad++
      }
      printf "%d files checked, %d with under 20 lines, %d findings\n", files, smalls, bad + 0
      exit bad > 0
    }'
