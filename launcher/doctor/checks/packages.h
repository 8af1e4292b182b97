// The command that installs a package on this host's distribution.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dl::launcher::doctor {

enum class PackageManager : std::uint8_t { kOther, kApt, kDnf, kZypper };

// From the distribution's os-release; `root` stands for "/".
PackageManager read_package_manager(const std::string& root);
// `os_release`: the file's text, of which ID and ID_LIKE count.
PackageManager package_manager_in(std::string_view os_release);

// One program's package, by the names that distributions give it.
struct Package {
  std::string_view debian;
  std::string_view red_hat;
  std::string_view suse;
};
// "sudo dnf install openssh-clients"; with kOther "install the package openssh-client".
std::string install(PackageManager manager, const Package& package);

}  // namespace dl::launcher::doctor
