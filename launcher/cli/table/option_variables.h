// The environment variables that give an option its value if the line does not: torchrun's PET_...,
// which Kubeflow sets, and two more of torchrun's.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/table/option_table.h"

namespace dl::launcher {

struct FoundVariables {
  std::vector<Typed> options;  // in the order of the table; flags that are 1
  // A line for each variable of an option that dlrun refuses: the variable is not used.
  std::vector<std::string> remarks;
};

// PET_ names that torchrun does not know are left alone. Throws kInvalidArgument for a flag's
// variable that is neither 0 nor 1.
FoundVariables option_variables();

}  // namespace dl::launcher
