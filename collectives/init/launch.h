// Launch: who this process is in its job, as its launcher told it.
#pragma once

#include <optional>
#include <string_view>

namespace dl::collectives {

struct Launch {
  int rank = 0;
  int world_size = 1;
  std::string_view told_by = "nobody";  // "RANK and WORLD_SIZE", "mpirun", "srun", ...
};

// `rank` and `world_size` as the program gave them go before the environment. Throws
// kInvalidArgument where only one of a pair is set, or the rank is not one of the world's.
Launch find_launch(std::optional<int> rank, std::optional<int> world_size);

}  // namespace dl::collectives
