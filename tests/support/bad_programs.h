// Programs that no starter can execute, and what dlrun says of each.
#pragma once

#include <elf.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace dl::tests {

struct BadProgram {
  std::string path;
  int exit_code;
  std::string sentence;  // the end of it: the system's own words among them
};

// Makes them in `folder`: one that is missing, one that may not be executed, a folder, one for
// another machine, and a script whose interpreter is missing.
inline std::vector<BadProgram> bad_programs(const std::string& folder) {
  const auto make = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
    std::filesystem::permissions(folder + "/" + name, std::filesystem::perms::owner_all);
    return folder + "/" + name;
  };
  std::ifstream own("/proc/self/exe", std::ios::binary);
  std::string foreign(sizeof(Elf64_Ehdr), '\0');
  own.read(foreign.data(), static_cast<std::streamsize>(foreign.size()));
  reinterpret_cast<Elf64_Ehdr*>(foreign.data())->e_machine = EM_S390;
  make("locked", "#!/bin/sh\n");
  std::filesystem::permissions(folder + "/locked", std::filesystem::perms::owner_read);
  return {
      {folder + "/missing", 127, "/missing (No such file or directory)"},
      {folder + "/locked", 126, "/locked cannot be executed: Permission denied"},
      {folder, 126, " cannot be executed: Is a directory"},
      {make("foreign", foreign), 126,
       "/foreign: Exec format error: it is an ELF program for s390x, "
       "and this machine is "},
      {make("script", "#!/no/such/sh\n"), 127,
       "/script: No such file or directory: its interpreter /no/such/sh is not there"},
  };
}

}  // namespace dl::tests
