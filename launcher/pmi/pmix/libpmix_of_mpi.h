// Which libpmix serves a program: dlrun-pmix's own one, or the one that the program's MPI brings,
// if it is newer. A client of version 5 does not understand an older server's answer about groups
// (MPI_Comm_create_from_group); newer servers understand older clients.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process/ask/libraries.h"

namespace dl::pmix {

// launcher::list_libraries(), or what stands for it.
using ListLibraries = std::vector<launcher::LoadedLibrary> (*)(const std::string& file);
inline std::vector<launcher::LoadedLibrary> list_libraries(const std::string& file) {
  return launcher::list_libraries(file);
}

// The file of the libpmix that a program's MPI loads; empty: none is known. A program that is not
// linked to an MPI may be an interpreter, or a script of one. So the libmpi counts that an
// interpreter would load: along `library_path` (LD_LIBRARY_PATH), or that of its own prefix, which
// Python's wheels use.
std::string libpmix_of(const std::string& program, const std::string& library_path,
                       ListLibraries list = &list_libraries);

// The first number of "OpenPMIx 5.0.11 (PMIx Standard: ...)"; 0: it is not such a text.
int major_version(std::string_view text);

// What PMIx_Get_version() of that file says; empty: it cannot be loaded.
std::string version_of(const std::string& libpmix);

}  // namespace dl::pmix
