#include "launcher/plan/surroundings.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/env.h"
#include "core/base/error.h"

namespace dl::launcher {

void take_surroundings(Options& options) {
  for (const Exported& variable : options.job.exports) {
    if (variable.value) env::set(variable.name, *variable.value);
  }
  if (options.job.wdir.empty()) return;
  for (std::string* const path : {&options.output.log_dir, &options.meet.key_file}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path);
  }
  DL_CHECK(::chdir(options.job.wdir.c_str()) == 0, kInvalidArgument, "--wdir {}: {}",
           options.job.wdir, std::strerror(errno));
  // A shell would have set PWD, and programs take it for the name of their folder.
  env::set("PWD", std::filesystem::current_path());
}

}  // namespace dl::launcher
