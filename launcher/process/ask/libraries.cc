#include "launcher/process/ask/libraries.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "core/base/error.h"
#include "launcher/process/ask/ask.h"

namespace dl::launcher {
namespace {

constexpr std::chrono::seconds kTimeToList{10};

// The file of the dynamic linker that has started this process; empty if there is none.
std::string dynamic_linker() {
  Dl_info info{};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel gives addresses as numbers
  void* const base = reinterpret_cast<void*>(::getauxval(AT_BASE));
  return base != nullptr && ::dladdr(base, &info) != 0 ? info.dli_fname : "";
}

}  // namespace

std::vector<LoadedLibrary> list_libraries(const std::string& file,
                                          const std::string& library_path) {
  std::vector<std::string> line = {dynamic_linker()};
  if (line.front().empty()) return {};
  if (!library_path.empty()) line.insert(line.end(), {"--library-path", library_path});
  line.insert(line.end(), {"--list", file});
  try {
    return libraries_in(ask(std::move(line), {.patience = kTimeToList}).text);
  } catch (const Error&) {
    return {};
  }
}

// "\tlibpmix.so.2 => /opt/lib/libpmix.so.2 (0x00007f...)", "\tlibpmix.so.2 => not found"
std::vector<LoadedLibrary> libraries_in(std::string_view text) {
  constexpr std::string_view kArrow = " => ";
  std::vector<LoadedLibrary> libraries;
  for (const auto part : std::views::split(text, '\n')) {
    const std::string_view line(part.begin(), part.end());
    const std::size_t arrow = line.find(kArrow);
    if (arrow == std::string_view::npos || !line.starts_with('\t')) continue;
    std::string_view file = line.substr(arrow + kArrow.size());
    file = file.starts_with('/') ? file.substr(0, file.rfind(" (")) : std::string_view();
    libraries.push_back({std::string(line.substr(1, arrow - 1)), std::string(file)});
  }
  return libraries;
}

std::string file_of(std::string_view name, const std::vector<LoadedLibrary>& libraries) {
  const auto found = std::ranges::find(libraries, name, &LoadedLibrary::name);
  return found == libraries.end() ? std::string() : found->file;
}

}  // namespace dl::launcher
