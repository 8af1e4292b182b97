// The variables PET_... that torchrun takes for options, and that Kubeflow and others set: what
// each says, below the options of the line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher {

struct EnvironmentOption {
  std::string_view option;    // "--nnodes"
  std::string_view variable;  // "PET_NNODES"
  std::string value;
};

struct TorchrunEnvironment {
  std::vector<EnvironmentOption> options;  // that dlrun has
  bool standalone = false;                 // PET_STANDALONE
  // A line for each variable of torchrun's that has no option here: it is not used.
  std::vector<std::string> remarks;
};

// Names that torchrun does not know are not ours to judge, and are left alone. Throws
// Error{kInvalidArgument} where a variable would make torchrun run something else than the line
// says (PET_MODULE, PET_RUN_PATH).
TorchrunEnvironment torchrun_environment();

}  // namespace dl::launcher
