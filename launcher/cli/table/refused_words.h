// Words of Open MPI's mpirun, of hydra (MPICH's) and of srun that dlrun does not have. They are
// refused by name, each with the word to use here. torchrun's words are rows of option_table().
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dl::launcher {

// The sentence for a word without its value ("--ntasks", "-ppn"). nullopt: the word is not known.
std::optional<std::string> why_refused(std::string_view word);

}  // namespace dl::launcher
