// The libraries that a program loads when it starts, as the dynamic linker finds them: by run
// paths, LD_LIBRARY_PATH and its cache. The program itself is not run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher {

struct LoadedLibrary {
  std::string name;  // "libmpi.so.40"
  std::string file;  // empty: it is not found

  bool operator==(const LoadedLibrary&) const = default;
};

// Lists every library that the dynamic linker loads for `file`, a program or a library: first those
// that `file` needs, then those that they need. The list is empty if `file` is no such file of this
// machine. `library_path` takes the place of LD_LIBRARY_PATH; if it is empty, the variable counts.
// Takes a few milliseconds. As with ask(), call it before any thread exists.
std::vector<LoadedLibrary> list_libraries(const std::string& file,
                                          const std::string& library_path = "");

// Reads the text that `ld.so --list FILE` writes.
std::vector<LoadedLibrary> libraries_in(std::string_view text);

// The file of the library with this name; empty: `libraries` has none.
std::string file_of(std::string_view name, const std::vector<LoadedLibrary>& libraries);

}  // namespace dl::launcher
