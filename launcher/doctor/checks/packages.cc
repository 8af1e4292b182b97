#include "launcher/doctor/checks/packages.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

namespace dl::launcher::doctor {
namespace {

struct Family {
  std::string_view id;
  PackageManager manager;
};
// Others name one of these in ID_LIKE.
constexpr std::array kFamilies = {
    Family{"debian", PackageManager::kApt},      Family{"ubuntu", PackageManager::kApt},
    Family{"fedora", PackageManager::kDnf},      Family{"rhel", PackageManager::kDnf},
    Family{"centos", PackageManager::kDnf},      Family{"suse", PackageManager::kZypper},
    Family{"opensuse", PackageManager::kZypper}, Family{"sles", PackageManager::kZypper},
};

// The value of a line NAME=VALUE, without its quotes; empty: there is none.
std::string value_in(std::string_view os_release, std::string_view name) {
  std::istringstream lines{std::string(os_release)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != '=') continue;
    line.erase(0, name.size() + 1);
    std::erase_if(line, [](char c) { return c == '"' || c == '\'' || c == '\r'; });
    return line;
  }
  return "";
}

}  // namespace

PackageManager package_manager_in(std::string_view os_release) {
  std::istringstream ids(value_in(os_release, "ID") + " " + value_in(os_release, "ID_LIKE"));
  for (std::string id; ids >> id;) {
    // "opensuse-leap", "opensuse-tumbleweed"
    const std::string_view family = std::string_view(id).substr(0, id.find('-'));
    const auto* const found = std::ranges::find(kFamilies, family, &Family::id);
    if (found != kFamilies.end()) return found->manager;
  }
  return PackageManager::kOther;
}

PackageManager read_package_manager(const std::string& root) {
  for (const char* const path : {"/etc/os-release", "/usr/lib/os-release"}) {
    std::ifstream file(root + path, std::ios::binary);
    if (!file) continue;
    return package_manager_in(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  return PackageManager::kOther;
}

std::string install(PackageManager manager, const Package& package) {
  switch (manager) {
    case PackageManager::kApt:
      return fmt::format("sudo apt-get install {}", package.debian);
    case PackageManager::kDnf:
      return fmt::format("sudo dnf install {}", package.red_hat);
    case PackageManager::kZypper:
      return fmt::format("sudo zypper install {}", package.suse);
    case PackageManager::kOther:
      break;
  }
  return fmt::format("install the package {}", package.debian);
}

}  // namespace dl::launcher::doctor
