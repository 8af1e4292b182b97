// Starts the process that a kSpawn message describes.
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

#include "launcher/process/start/spawn.h"
#include "launcher/process/supervisor_channel.h"

namespace dl::launcher {

// A program of the job.
struct RankProgram {
  std::string path;
  std::vector<std::string> argv;
  std::string directory;  // of its ranks; empty: dlrun's
};

// The job's programs, for a kSpawn that names no program.
struct RankPrograms {
  std::vector<RankProgram> all;
  rlimit open_files{};  // of the ranks: dlrun's own limit is higher
};

// Moves the descriptors of `spawn` into a new process. Its environment is this process's own,
// overridden by the message's entries. Returns the answer: kStarted with the pid, or kNotStarted.
Message start_process(Spawner& spawner, const RankPrograms& programs, Message& spawn);

}  // namespace dl::launcher
