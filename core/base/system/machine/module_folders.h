// find_module(): the paths of dlrun's modules, the shared libraries for gRPC, CUDA, NCCL and MPI
// that it opens at run time.
//
// It searches, in this order:
// - DLRUN_MODULE_DIR,
// - the folder of the library or program that contains this code, and lib/ next to that folder,
// - the same two of the program itself,
// - the folders that the loader searches for this program: LD_LIBRARY_PATH, and its run path, which
//   find_package(dlrun) sets to the installed lib/,
// - the lib/ folder of dlrun's configured install prefix,
// - the folder of the dlrun that started this process, and lib/ next to it.
//
// Thread-safety: any thread may call.
#pragma once

#include <filesystem>
#include <string_view>

namespace dl {

// The path of `file`. Throws kNotFound if it is in none of the folders; the text begins with
// `what`, names the folders, and says that DLRUN_MODULE_DIR may name another, or `otherwise` (a
// clause).
std::filesystem::path find_module(
    std::string_view what, std::string_view file,
    std::string_view otherwise = "install dlrun's libraries beside its programs");

}  // namespace dl
