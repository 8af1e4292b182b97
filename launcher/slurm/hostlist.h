// Parsers for the two lists that SLURM writes into the environment in a short form.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher {

inline constexpr std::size_t kMostHosts = 1'000'000;

// "n[1-3,07],m4" is n1, n2, n3, n07, m4; "r[1-2]n[01-02]" is r1n01, r1n02, r2n01, r2n02. A range
// has as many digits as its first number. Throws Error{kParse} with a sentence that quotes `text`,
// also if there are more than kMostHosts names.
std::vector<std::string> expand_hostlist(std::string_view text);

// "8(x2),4" is 8, 8, 4: a number for each node, as in SLURM_JOB_CPUS_PER_NODE. Throws as above.
std::vector<int> expand_counts(std::string_view text);

}  // namespace dl::launcher
