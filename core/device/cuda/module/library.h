// Opens a module of dlrun together with the NVIDIA libraries that it needs.
//
// find_module() (core/base/system/machine/module_folders.h) says in which folders modules are. A
// library that the loader does not find by itself is looked for in CUDA_HOME, in /usr/local/cuda,
// and in the nvidia/ packages that PyTorch's wheels install. Those packages are searched in
// VIRTUAL_ENV, CONDA_PREFIX, the prefix of the python3 in PATH (links are followed), /usr/local and
// ~/.local.
//
// Thread-safety: any thread may call.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dl::cuda {

// Opens the shared library `file` and never closes it. Throws kNotFound; the text begins with
// `what` and names the missing file and the folders that were searched, or quotes another error of
// the loader.
void* open_library(std::string_view what, std::string_view file);

namespace detail {
// Folders that may hold NVIDIA's libraries, in search order.
std::vector<std::filesystem::path> library_folders();
// "libcudnn.so.9" out of the loader's "libcudnn.so.9: cannot open shared object file: No such file
// or directory"; empty if the text is a different one.
std::string missing_library(std::string_view loader_text);
}  // namespace detail

}  // namespace dl::cuda
