// Which MPI started this process, and the module (module.h) that speaks to it. Any thread.
#pragma once

#include <optional>
#include <string_view>

#include "collectives/mpi/module.h"

namespace dl::collectives::mpi {

// What mpirun or srun told this process.
struct Starter {
  std::string_view name;    // "mpirun (Open MPI)"
  std::string_view module;  // "openmpi" or "mpich"
  std::optional<int> size;  // ranks of the job, where it said so
};

// From the environment. Throws kInvalidArgument, with what to type, where no MPI knows of this
// process: MPI would then start and find a world of one.
Starter find_starter();

// Opens the module of this name. Throws kNotFound where it was not built or its MPI is not
// installed, kMismatch where it belongs to another version of dlrun.
const Module& open_module(const Starter& starter);

}  // namespace dl::collectives::mpi
