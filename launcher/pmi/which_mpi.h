// Finds the MPI to which a program is linked, itself or by a library of its own, and decides
// whether dlrun serves the ranks as MPI processes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/process/start/program.h"

namespace dl::launcher {

enum class MpiKind : std::uint8_t {
  kNone,
  kMpich,    // MPICH and MPIs with its binary interface: Intel MPI, MVAPICH, Cray MPI
  kOpenMpi,  // takes its ranks from PMIx
};

struct WhichMpi {
  MpiKind kind = MpiKind::kNone;
  std::string library;  // "libmpich.so.12"
};

// The MPI to which a 64-bit ELF program is linked, or a library that it loads; kNone for any other
// file, and if the file cannot be read. The dynamic linker is asked if the program needs more than
// the system's libraries and names no MPI. `library_path`: as in list_libraries().
WhichMpi which_mpi(const std::string& path, const std::string& library_path = "");

// The names in DT_NEEDED of a 64-bit ELF file in this machine's byte order; empty if `file` is no
// such file, or is damaged.
std::vector<std::string_view> needed_libraries(std::span<const char> file);

// The MPI that has a library with this name.
MpiKind mpi_of_library(std::string_view name);

// How the ranks are served; never kAuto. All ranks are, if one of the job's programs is linked to
// an MPI: another one may be a script that starts such a program. Throws kInvalidArgument if dlrun
// cannot serve it, as each rank would be an MPI job of one process, or if programs need two MPIs.
Mpi mpi_to_serve(const Options& options, std::span<const Program> programs);

// A sentence for each program that is linked to another MPI than the one that the user's --mpi
// serves. It is no error, as the program may start another one.
std::vector<std::string> unserved_mpis(const Options& options, std::span<const Program> programs);

}  // namespace dl::launcher
