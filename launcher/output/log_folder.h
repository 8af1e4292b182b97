// The folders and files of one job under --log-dir (node_output.h has the layout): made anew for
// every job, so that nothing of another one is touched.
//
// The nodes of a job may share DIR: they agree on the run's name, and each makes its own ranks'.
#pragma once

#include <string>
#include <vector>

#include "core/base/unique_fd.h"

namespace dl::launcher {

inline constexpr const char* kLatestRun = "latest";
inline constexpr const char* kAttemptPrefix = "attempt_";

// "JOB_20260131_235959_1f2e3d4c": a name that no other run has, of what a file may be called.
std::string new_run_name(const std::string& job);

struct LogFolder {
  struct Files {
    UniqueFd out;
    UniqueFd err;
  };
  std::string error;    // what went wrong; empty: nothing
  std::string no_link;  // why `latest` does not lead here; empty: it does
  std::string run;      // DIR/<run>
  std::string attempt;  // DIR/<run>/attempt_<n>
  UniqueFd own;         // what dlrun says
  std::vector<Files> ranks;
};
// `with_own`: opens the log of what dlrun says, too; a dlrun that comes back goes on in the file of
// the one before.
LogFolder make_log_folder(const std::string& log_dir, const std::string& run, int node, int attempt,
                          bool with_own, const std::vector<int>& ranks);

// Where the logs of the last attempt of the last run under `path` are, or of the run `path`;
// `path` itself if it is neither.
std::string newest_attempt(const std::string& path);

}  // namespace dl::launcher
