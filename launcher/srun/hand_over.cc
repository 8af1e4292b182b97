// dlrun's own versions of what dlrun-srun does: they execute that program, which stands beside
// dlrun, in dlrun's place. The handshake of srun's tasks needs cryptography, and loading its
// libraries would cost every launch a third of its time, also those without SLURM.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "core/base/env.h"
#include "core/base/error.h"
#include "launcher/cli/slurm_line.h"
#include "launcher/process/own_process.h"
#include "launcher/srun/srun_job.h"
#include "launcher/srun/srun_task.h"
#include "launcher/srun/step_key.h"

namespace dl::launcher {
namespace {

[[noreturn]] void hand_over(CommandLine line) {
  const std::filesystem::path program = own_file().parent_path() / "dlrun-srun";
  ::execv(program.c_str(), line.argv);
  throw_error(ErrorKind::kNotFound,
              "{}, which stands beside dlrun for SLURM's allocations, cannot be executed: {}",
              program.string(), std::strerror(errno));
}

}  // namespace

int run_on_allocation(const Options&, const SlurmAllocation&, CommandLine line) {
  hand_over(line);
}

std::unique_ptr<KeyGiver> key_of_step(const Options& options, CommandLine line) {
  if (!needs_step_key(options)) return nullptr;
  hand_over(line);
}

std::optional<LinesToFrontend> connect_as_task_of_srun(CommandLine line) {
  if (!env::is_set(env::Var::kSrunFrontend)) return std::nullopt;
  hand_over(line);
}

}  // namespace dl::launcher
