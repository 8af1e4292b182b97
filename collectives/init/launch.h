// Launch: the rank and world size of this process, and its place in a job of dlrun, as its launcher
// set them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dl::collectives {

struct Launch {
  int rank = 0;
  int world_size = 1;
  std::string_view told_by = "default";  // the source: "RANK and WORLD_SIZE", "the program", ...
};

// `rank` and `world_size` from the program take precedence over the environment. Throws
// kInvalidArgument if only one of a pair is set, or the rank is not below the world size.
Launch find_launch(std::optional<int> rank, std::optional<int> world_size);

// What dlrun tells each process of a job.
struct JobPlace {
  bool is_in_job = false;  // false: dlrun has not started this process
  std::string job = "local";
  std::uint64_t generation = 0;
  std::string node{};   // empty: the host's name
  std::string iface{};  // DLRUN_IFACE
};
JobPlace find_job_place();

}  // namespace dl::collectives
