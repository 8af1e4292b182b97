// `dlrun ps` and `dlrun kill` in tests: how they are run, and a job of the test's own in what they
// say. Other jobs of this user may run beside it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/program.h"

namespace dl::tests {

struct Ran {
  int code = -1;
  std::string out;
  std::string err;
};

inline Ran ran(const std::vector<std::string>& argv) {
  Process process(argv);
  const int code = process.wait();
  return {code, process.out(), process.err()};
}

// The job of this dlrun, or null, from the JSON of `dlrun ps`.
inline nlohmann::json job_in(const std::string& text, pid_t dlrun) {
  const nlohmann::json all = nlohmann::json::parse(text);
  for (const nlohmann::json& host : all.at("hosts")) {
    for (const nlohmann::json& job : host.at("jobs")) {
      if (job.at("pid") == dlrun) return job;
    }
  }
  return nullptr;
}

inline nlohmann::json job_of(pid_t pid) {
  const Ran ps = ran(dlrun({"ps", "--json"}));
  EXPECT_EQ(ps.code, 0) << ps.err;
  return job_in(ps.out, pid);
}

// Waits until `dlrun ps` shows this state of all of the job's ranks, of which there is one at
// least.
inline bool all_ranks_are(pid_t pid, const std::string& state) {
  return eventually([&] {
    const nlohmann::json job = job_of(pid);
    if (job.is_null() || job.at("ranks").empty()) return false;
    for (const nlohmann::json& rank : job.at("ranks")) {
      if (rank.at("state") != state) return false;
    }
    return true;
  });
}

}  // namespace dl::tests
