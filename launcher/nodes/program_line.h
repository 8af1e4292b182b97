// The program's words as a line that a person reads and a node can compare with another's.
#pragma once

#include <string>
#include <vector>

namespace dl::launcher {

// The words with quotes around those that a shell would take apart.
std::string line_of(const std::vector<std::string>& words);

// What two nodes of one job have in common, wherever it is installed: the base name of the program,
// or of the script or module that a known interpreter runs. "python" for `python3 -c ...`.
std::string base_name_of(const std::vector<std::string>& words);

}  // namespace dl::launcher
