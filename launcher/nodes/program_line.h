// A program and its arguments as one line, which a person reads and a node compares with the line
// of another node.
#pragma once

#include <string>
#include <vector>

namespace dl::launcher {

// Joins the words to a line; words that a shell would split get quotes.
std::string line_of(const std::vector<std::string>& words);

// What two nodes of one job have in common, in whatever directory it is installed: the base name of
// the program, or of the script or module that a known interpreter runs; "python" for `python3 -c
// ...`.
std::string base_name_of(const std::vector<std::string>& words);

}  // namespace dl::launcher
