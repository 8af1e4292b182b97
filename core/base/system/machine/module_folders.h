// module_folders(): the folders in which dlrun searches for its modules, the shared libraries for
// CUDA, NCCL and MPI that it opens at run time.
//
// In this order:
// - DLRUN_MODULE_DIR,
// - the folder of the library or program that contains this code, and lib/ next to that folder,
// - the same two of the program itself,
// - the folders that the loader searches for this program: LD_LIBRARY_PATH, and its run path, which
//   find_package(dlrun) sets to the installed lib/,
// - the lib/ folder of dlrun's configured install prefix.
//
// Thread-safety: any thread may call.
#pragma once

#include <filesystem>
#include <vector>

namespace dl {

// Returns each folder once; a folder need not exist.
std::vector<std::filesystem::path> module_folders();

}  // namespace dl
