// Which process of a job in a SlurmCluster is what.
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

#include "tests/support/process.h"

namespace dl::tests {

// Of a process's environment; empty: it is not set.
inline std::string variable_of(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  for (std::string variable; std::getline(file, variable, '\0');) {
    if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
  }
  return "";
}

// dlrun, or what it executes in its place.
inline bool is_dlrun(pid_t pid) {
  const std::string name = name_of(pid);
  return name == "dlrun" || name == "dlrun-srun";
}

// The dlrun that was started in an allocation, and not one of its tasks.
inline bool is_frontend(pid_t pid) {
  return is_dlrun(pid) && variable_of(pid, "SLURM_STEP_ID").empty();
}

}  // namespace dl::tests
