// Tells which MPI started this process, and opens the module (module.h) that calls it. Any thread.
#pragma once

#include <optional>
#include <string_view>

#include "collectives/mpi/module/module.h"

namespace dl::collectives::mpi {

// What mpirun or srun told this process.
struct Starter {
  std::string_view name;    // "mpirun (Open MPI)"
  std::string_view module;  // "openmpi" or "mpich"
  std::optional<int> size;  // ranks of the job, if it said so
};

// Reads the environment. Throws kInvalidArgument, saying what to type, if no MPI started this
// process: MPI would then start with a world of one rank.
Starter find_starter();

// Opens the starter's module. Throws kNotFound if it was not built or its MPI is not installed,
// kMismatch if it belongs to another version of dlrun.
const Module& open_module(const Starter& starter);

}  // namespace dl::collectives::mpi
