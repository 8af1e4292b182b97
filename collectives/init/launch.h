// Launch: the rank and world size of this process, as its launcher set them.
#pragma once

#include <optional>
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

}  // namespace dl::collectives
