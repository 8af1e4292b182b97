// The folders and files of one job under --log-dir (node_output.h has the layout). Every job gets
// new ones, so that no file of another job is touched.
//
// The nodes of a job may share DIR: they agree on the run's name, and each makes the folders of its
// own ranks.
#pragma once

#include <string>
#include <vector>

#include "core/base/system/unique_fd.h"

namespace dl::launcher {

inline constexpr const char* kLatestRun = "latest";
inline constexpr const char* kAttemptPrefix = "attempt_";

// "JOB_20260131_235959_1f2e3d4c": a name that no other run has, made of characters that file names
// may have.
std::string new_run_name(const std::string& job);

struct LogFolder {
  struct Files {
    UniqueFd out;
    UniqueFd err;
  };
  std::string error;    // the error; empty: none
  std::string no_link;  // why `latest` does not point here; empty: it does
  std::string run;      // DIR/<run>
  std::string attempt;  // DIR/<run>/attempt_<n>
  UniqueFd own;         // the log of dlrun's own lines
  std::vector<Files> ranks;
};
// `with_own`: also opens the log of dlrun's own lines. A dlrun that comes back continues the file
// of the previous one.
LogFolder make_log_folder(const std::string& log_dir, const std::string& run, int node, int attempt,
                          bool with_own, const std::vector<int>& ranks);

// The folder of the last attempt of the run `path`, or of the last run under `path`; `path` itself
// if it is neither.
std::string newest_attempt(const std::string& path);

}  // namespace dl::launcher
