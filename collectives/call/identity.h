// Identity: a rank and its process, as errors name them.
#pragma once

#include <fmt/core.h>

#include <string>

namespace dl::collectives {

struct Identity {
  int rank = 0;
  std::string host{};
  int pid = 0;
  std::string node{};     // equal for ranks that share a node
  int known_as = -1;      // its rank in the outer group, if its group is an inner one
  std::string process{};  // identifies the process together with its pid (peer_process.h)
  int job_rank = -1;      // its rank in the job, if that differs; -1: shown()

  int shown() const noexcept { return known_as >= 0 ? known_as : rank; }
  // Its rank in the job (RANK).
  int in_job() const noexcept { return job_rank >= 0 ? job_rank : shown(); }
  // "rank 3 (node2, pid 4711)": its rank in the job. If its group numbers it differently: "rank 3
  // (1 in the group, node2, pid 4711)". "rank 3" if its host is not known.
  std::string text() const {
    if (host.empty()) return fmt::format("rank {}", in_job());
    const bool differs = in_job() != shown();
    return fmt::format("rank {} ({}{}, pid {})", in_job(),
                       differs ? fmt::format("{} in the group, ", shown()) : std::string(), host,
                       pid);
  }
};

}  // namespace dl::collectives
