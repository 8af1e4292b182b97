// The prefix of each line of a rank: torchrun's --log-line-prefix-template.
#pragma once

#include <string>
#include <string_view>

namespace dl::launcher {

struct PrefixFacts {
  std::string_view role_name;
  int rank = 0;
  int local_rank = 0;
  std::string_view hostname;
};

// Replaces ${role_name}, ${rank}, ${local_rank} and ${hostname} in `pattern`, with or without
// braces; $$ is a dollar. Other names stay unchanged, as with Python's safe_substitute().
std::string line_prefix_of(std::string_view pattern, const PrefixFacts& facts);

}  // namespace dl::launcher
