#include <unistd.h>

#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "launcher/slurm/commands.h"

namespace dl::launcher {
namespace {

// Users set these for their own calls: another format of times, a filter, another cluster, a
// question before a signal is sent.
bool changes_answers(std::string_view entry) {
  for (const std::string_view begin :
       {"SLURM_TIME_FORMAT=", "SLURM_CLUSTERS=", "SQUEUE_", "SCANCEL_", "SCONTROL_"}) {
    if (entry.starts_with(begin)) return true;
  }
  return false;
}

}  // namespace

Answer ask_program(std::vector<std::string> line, const std::string& input) {
  AskOptions options{.input = input, .environment = {"SLURM_TIME_FORMAT=standard"}};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!changes_answers(*entry)) options.environment.emplace_back(*entry);
  }
  try {
    return ask(std::move(line), options);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNotFound) {
      throw_error(error.kind(), "{}; is SLURM's bin folder in PATH?", error.what());
    }
    if (error.kind() == ErrorKind::kTimeout) {
      throw_error(error.kind(), "{}; does the cluster's daemon run that it asks?", error.what());
    }
    throw;
  }
}

}  // namespace dl::launcher
