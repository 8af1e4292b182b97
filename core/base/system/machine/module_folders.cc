#include "core/base/system/machine/module_folders.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"

namespace dl {
namespace {

namespace fs = std::filesystem;

// The folders of dlopen(), as dlinfo(3) lists them.
std::vector<fs::path> loader_folders() {
  std::vector<fs::path> folders;
  void* const program = ::dlopen(nullptr, RTLD_NOW);
  if (program == nullptr) return folders;
  Dl_serinfo size{};
  if (::dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<std::max_align_t> memory(size.dls_size / sizeof(std::max_align_t) + 1);
    auto* const list = ::new (memory.data()) Dl_serinfo(size);
    if (::dlinfo(program, RTLD_DI_SERINFO, list) == 0) {
      for (unsigned i = 0; i < list->dls_cnt; ++i) {
        folders.emplace_back(list->dls_serpath[i].dls_name);
      }
    }
  }
  ::dlclose(program);
  return folders;
}

// Each folder once; a folder need not exist.
std::vector<fs::path> module_folders() {
  std::vector<fs::path> all;
  const auto add = [&](const fs::path& folder) {
    if (!folder.empty() && std::ranges::find(all, folder) == all.end()) all.push_back(folder);
  };
  if (const auto given = env::get(env::Var::kModuleDir)) add(*given);
  const auto add_beside = [&](const fs::path& object) {
    const fs::path folder = object.parent_path();
    add(folder);                                    // if the object is a library
    add(folder.parent_path() / DLRUN_LIBDIR_NAME);  // if the object is a program
    add(folder.parent_path() / "lib");
  };
  // This code is in the program, or in a shared library that it was linked into.
  Dl_info info{};
  std::error_code error;
  if (::dladdr(reinterpret_cast<const void*>(&module_folders), &info) != 0 && info.dli_fname) {
    const fs::path object = fs::canonical(info.dli_fname, error);
    if (!error) add_beside(object);
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) add_beside(program);
  for (const fs::path& folder : loader_folders()) add(folder);
  add(DLRUN_LIBDIR);
  if (const auto folder = env::get(env::Var::kDlrunFolder)) add_beside(fs::path(*folder) / "dlrun");
  return all;
}

}  // namespace

fs::path find_module(std::string_view what, std::string_view file, std::string_view otherwise) {
  std::string searched;
  for (const fs::path& folder : module_folders()) {
    const fs::path path = folder / file;
    std::error_code error;
    if (fs::exists(path, error)) return path;
    searched += (searched.empty() ? "" : ", ") + folder.string();
  }
  throw_error(ErrorKind::kNotFound,
              "{}: there is no {} in {}; name its folder in DLRUN_MODULE_DIR, or {}", what, file,
              searched, otherwise);
}

}  // namespace dl
