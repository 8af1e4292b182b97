#include "launcher/pmi/pmix/libpmix_of_mpi.h"

#include <dlfcn.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <ranges>
#include <system_error>

#include "core/base/system/process/shell.h"

namespace dl::pmix {
namespace {

using launcher::file_of;
using launcher::LoadedLibrary;

constexpr std::string_view kLibpmix = "libpmix.so.2";
constexpr std::string_view kLibmpi = "libmpi.so.40";  // of Open MPI 4 and 5

bool is_there(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

// The interpreter that a script's first line names; the program itself if it is no script.
std::filesystem::path interpreter_of(const std::string& program) {
  std::ifstream file(program);
  std::string line;
  if (file.get() != '#' || file.get() != '!' || !std::getline(file, line)) return program;
  std::vector<std::string> words;
  for (const auto word : std::views::split(line, ' ')) {
    if (!word.empty()) words.emplace_back(word.begin(), word.end());
  }
  if (words.empty()) return program;
  if (words.size() == 1 || !words[0].ends_with("/env")) return words[0];
  if (words.back().find('/') != std::string::npos) return words.back();
  for (const std::string& found : candidates_in_path(words.back())) {
    if (is_there(found)) return found;
  }
  return program;
}

// The libmpi that an interpreter would load; empty: none is known.
std::filesystem::path libmpi_beside(const std::filesystem::path& interpreter,
                                    const std::string& library_path) {
  for (const auto folder : std::views::split(library_path, ':')) {
    const auto found = std::filesystem::path(folder.begin(), folder.end()) / kLibmpi;
    if (found.is_absolute() && is_there(found)) return found;
  }
  const auto found = interpreter.parent_path().parent_path() / "lib" / kLibmpi;
  return found.is_absolute() && is_there(found) ? found : std::filesystem::path();
}

}  // namespace

std::string libpmix_of(const std::string& program, const std::string& library_path,
                       ListLibraries list) {
  const std::filesystem::path file = interpreter_of(program);
  const std::vector<LoadedLibrary> libraries = list(file);
  std::string libpmix = file_of(kLibpmix, libraries);
  if (!libpmix.empty() || !file_of(kLibmpi, libraries).empty()) return libpmix;
  const std::filesystem::path libmpi = libmpi_beside(file, library_path);
  return libmpi.empty() ? std::string() : file_of(kLibpmix, list(libmpi));
}

int major_version(std::string_view text) {
  int number = 0;
  const std::size_t digit = text.find_first_of("0123456789");
  if (!text.starts_with("OpenPMIx ") || digit == std::string_view::npos) return 0;
  std::from_chars(text.data() + digit, text.data() + text.size(), number);
  return number;
}

// In a namespace of its own: this process may have loaded another libpmix.
std::string version_of(const std::string& libpmix) {
  void* const library = ::dlmopen(LM_ID_NEWLM, libpmix.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {};
  using GetVersion = const char* (*)();
  const auto get = reinterpret_cast<GetVersion>(::dlsym(library, "PMIx_Get_version"));
  std::string version = get == nullptr ? "" : get();
  ::dlclose(library);
  return version;
}

}  // namespace dl::pmix
