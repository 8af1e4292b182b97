#include "core/device/cuda/module/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/module_folders.h"
#include "core/base/system/process/shell.h"

namespace dl::cuda {
namespace {

namespace fs = std::filesystem;
using env::Var;

// PREFIX/lib/python3.x/site-packages/nvidia/*/lib, with lib64 and dist-packages as on some systems.
void add_python(std::vector<fs::path>& folders, const fs::path& prefix) {
  std::vector<fs::path> found;
  for (const char* lib : {"lib", "lib64"}) {
    std::error_code error;
    for (const auto& python : fs::directory_iterator(prefix / lib, error)) {
      if (!python.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        std::error_code none;
        for (const auto& entry :
             fs::directory_iterator(python.path() / packages / "nvidia", none)) {
          if (fs::is_directory(entry.path() / "lib", none)) found.push_back(entry.path() / "lib");
        }
      }
    }
  }
  std::ranges::sort(found);  // one order on every machine
  folders.insert(folders.end(), found.begin(), found.end());
}

// Folders in which the first python3 in PATH keeps packages: PREFIX of PREFIX/bin/python3, which
// may be a link into a virtual environment, whose python3 links to the system's. Then the folders
// of packages installed beside the system's, and for this user.
std::vector<fs::path> python_prefixes() {
  constexpr int kMostLinks = 8;
  std::vector<fs::path> prefixes;
  for (fs::path python : candidates_in_path("python3")) {
    std::error_code error;
    if (!python.is_absolute() || !fs::exists(python, error)) continue;
    for (int i = 0; i < kMostLinks && !python.empty(); ++i) {
      prefixes.push_back(python.parent_path().parent_path());
      const fs::path next = fs::read_symlink(python, error);
      python = error ? fs::path() : (python.parent_path() / next).lexically_normal();
    }
    prefixes.emplace_back("/usr/local");
    if (const auto home = env::get(Var::kHome)) prefixes.push_back(fs::path(*home) / ".local");
    break;
  }
  return prefixes;
}

std::string listed(const std::vector<fs::path>& folders) {
  std::string text;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    if (std::find(folders.begin(), folders.begin() + static_cast<std::ptrdiff_t>(i), folders[i]) !=
        folders.begin() + static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    text += (text.empty() ? "" : ", ") + folders[i].string();
  }
  return text;
}

// Opens a library by its full path, so that the loader then knows it by name. Its own dependencies
// are in the same or the next folder, and are opened first.
void preload(std::string_view what, const std::string& name, const std::vector<fs::path>& folders,
             int depth) {
  constexpr int kDeepest = 8;
  for (const fs::path& folder : folders) {
    std::error_code error;
    if (!fs::exists(folder / name, error)) continue;
    while (::dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr) {
      const std::string text = ::dlerror();
      const std::string missing = detail::missing_library(text);
      DL_CHECK(!missing.empty() && missing != name && depth < kDeepest, kNotFound, "{}: {}", what,
               text);
      preload(what, missing, folders, depth + 1);
    }
    return;
  }
  throw_error(ErrorKind::kNotFound,
              "{}: {} is not there; install it, or say where it lies with LD_LIBRARY_PATH (looked "
              "in the loader's own folders{}{})",
              what, name, folders.empty() ? "" : ", ", listed(folders));
}

}  // namespace

namespace detail {

std::vector<fs::path> library_folders() {
  std::vector<fs::path> all;
  std::vector<fs::path> toolkits;
  if (const auto home = env::get(Var::kCudaHome)) toolkits.emplace_back(*home);
  toolkits.emplace_back("/usr/local/cuda");
  for (const fs::path& toolkit : toolkits) {
    std::error_code error;
    for (const char* name : {"lib64", "lib"}) {
      if (fs::is_directory(toolkit / name, error)) all.push_back(toolkit / name);
    }
  }
  if (const auto prefix = env::get(Var::kVirtualEnv)) add_python(all, *prefix);
  if (const auto prefix = env::get(Var::kCondaPrefix)) {
    all.push_back(fs::path(*prefix) / "lib");
    add_python(all, *prefix);
  }
  for (const fs::path& prefix : python_prefixes()) add_python(all, prefix);
  return all;
}

std::string missing_library(std::string_view loader_text) {
  const std::size_t end = loader_text.find(": cannot open shared object file");
  if (end == std::string_view::npos) return {};
  const std::string_view name = loader_text.substr(0, end);
  return name.find('/') == std::string_view::npos ? std::string(name) : std::string();
}

}  // namespace detail

void* open_library(std::string_view what, std::string_view file) {
  const fs::path path = find_module(what, file);
  for (std::string last;;) {
    // Never closed: CUDA's libraries leave threads and handlers behind.
    void* const opened = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (opened != nullptr) return opened;
    const std::string text = ::dlerror();
    const std::string missing = detail::missing_library(text);
    DL_CHECK(!missing.empty() && missing != last, kNotFound, "{}: {}", what, text);
    preload(what, missing, detail::library_folders(), 0);
    last = missing;
  }
}

}  // namespace dl::cuda
