// MpiGroup: the ProcessGroup on an MPI that exists, for programs that mpirun or srun started.
//
// MPI comes from a module that is opened on first use (module.h), so that programs do not link it:
// libdlrun_mpi_openmpi.so or libdlrun_mpi_mpich.so, by what started the process, or by DLRUN_MPI.
// Ranks are those of MPI_COMM_WORLD; neither store nor key is needed. What an operation does:
// core.h.
//
// Who works: whoever waits for an operation drives it; otherwise the process's one progress thread
// does, which polls (engine.h). After an operation failed, buffers that MPI still has are never
// given back: their owners are kept, memory without an owner must stay until the process ends, and
// that is by _exit() without MPI_Finalize, with code 124 where it would have been 0.
//
// Dropping a group says goodbye and does not wait, but where the program started MPI itself: then
// it waits until all ranks have dropped theirs, so that MPI may be ended. Thread-safety:
// process_group.h.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "collectives/process_group.h"
#include "collectives/record/recorder.h"

namespace dl::collectives {

struct MpiWorld {
  int rank = 0;
  int size = 1;
};
// MPI_COMM_WORLD. Starts MPI in this process where nobody has; MPI ends with the process, or, where
// the program started it, with the program's MPI_Finalize, which must come after the last group.
// Throws kInvalidArgument where no MPI started this process, kNotFound without a module for it,
// kTimeout where the other ranks do not start theirs.
MpiWorld start_mpi(std::chrono::nanoseconds timeout);

struct MpiGroupOptions {
  std::string name = "world";
  std::chrono::nanoseconds timeout = std::chrono::seconds(600);          // of an operation
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(300);  // of making the group
  std::chrono::nanoseconds speak_after = std::chrono::seconds(5);  // then a wait says for whom
  std::shared_ptr<record::Recorder> recorder{};  // of the process; null: nothing is recorded
};

// Collective over MPI_COMM_WORLD. Throws what start_mpi() throws, kTimeout, kConnection.
Ref<ProcessGroup> make_mpi_group(const MpiGroupOptions& options);

}  // namespace dl::collectives
