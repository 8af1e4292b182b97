// Words of Open MPI's mpirun, of hydra (MPICH's) and of srun that dlrun does not have: refused by
// name, each with the word to use here. Those of torchrun are rows of option_table().
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dl::launcher {

// The sentence for a word, without a value ("--ntasks", "-ppn"); no value: there is no such word.
std::optional<std::string> why_refused(std::string_view word);

}  // namespace dl::launcher
