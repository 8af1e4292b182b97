// A Case as one page for a person, and as JSON for a program.
#pragma once

#include <string>
#include <vector>

#include "launcher/autopsy/case.h"

namespace dl::launcher::autopsy {

// The culprit, then a table of the ranks, then the files that could not be read. Lines without line
// breaks.
std::vector<std::string> page(const Case& from);

// docs/reference/dlrun.md, "dlrun autopsy", has the members.
std::string json(const Case& from);

}  // namespace dl::launcher::autopsy
