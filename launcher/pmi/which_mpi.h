// Which MPI a program is linked to, by the libraries that its file names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher {

enum class MpiKind : std::uint8_t {
  kNone,
  kMpich,    // MPICH and what shares its binary interface: Intel MPI, MVAPICH, Cray MPI
  kOpenMpi,  // takes its ranks from PMIx
};

struct WhichMpi {
  MpiKind kind = MpiKind::kNone;
  std::string library;  // "libmpich.so.12"
};

// The MPI that an ELF program of 64 bits is linked to; kNone for any other file, and for one that
// cannot be read.
WhichMpi which_mpi(const std::string& path);

// The names in DT_NEEDED of an ELF file of 64 bits in this machine's byte order; empty if `file` is
// none, or is damaged.
std::vector<std::string_view> needed_libraries(std::span<const char> file);

// The MPI whose library has this name.
MpiKind mpi_of_library(std::string_view name);

}  // namespace dl::launcher
