// Tells which MPI started this process, opens the module (module.h) that calls it, and makes errors
// of its codes. Any thread.
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

// True if a module of the starter is there; if no MPI started this process, one of any MPI. Opens
// nothing.
bool has_module() noexcept;

// Opens the starter's module. Throws kNotFound if it was not built or its MPI is not installed,
// kMismatch if it belongs to another version of dlrun.
const Module& open_module(const Starter& starter);

// Throws kConnection with MPI's text if `code` is not 0. `what` begins the text.
void check(const Module& mpi, int code, std::string_view what);

}  // namespace dl::collectives::mpi
