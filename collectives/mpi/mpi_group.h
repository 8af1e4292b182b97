// MpiGroup: the ProcessGroup on an existing MPI, for programs that mpirun or srun started.
//
// MPI is reached through a module that is opened on first use (module.h), so programs do not link
// MPI. The process's starter or DLRUN_MPI chooses libdlrun_mpi_openmpi.so or libdlrun_mpi_mpich.so.
// Ranks are those of MPI_COMM_WORLD; neither store nor key is needed. core.h describes the
// operations.
//
// A thread that waits for an operation drives it; otherwise the process's one progress thread does,
// by polling (engine.h). After an operation has failed, MPI never gives back the buffers that it
// still has: their owners are kept, and memory without an owner must stay until the process ends.
// The process then ends by _exit() without MPI_Finalize, with exit code 124 if it would have been
// 0.
//
// Dropping a group says goodbye and does not wait, unless the program itself started MPI: then it
// waits until all ranks have dropped theirs, so that the program may end MPI. Thread-safety:
// process_group.h.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "collectives/algorithms/plan.h"
#include "collectives/api/process_group.h"
#include "collectives/record/recorder.h"

namespace dl::collectives {

struct MpiWorld {
  int rank = 0;
  int size = 1;
};
// Opens MPI_COMM_WORLD, and starts MPI if the program has not. MPI ends with the process, or with
// the program's MPI_Finalize if the program started it; this must come after the last group is
// dropped. Throws kInvalidArgument if no MPI started this process, kNotFound if there is no module
// for it, kTimeout if the other ranks do not start MPI.
MpiWorld start_mpi(std::chrono::nanoseconds timeout);

struct MpiGroupOptions {
  std::string name = "world";
  std::chrono::nanoseconds timeout = std::chrono::seconds(600);          // of an operation
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(300);  // of making the group
  // then a wait logs the missing ranks
  std::chrono::nanoseconds warn_after = std::chrono::seconds(5);
  // Its rules choose algorithms; rank 0's counts for all. Its links do not count: without a rule,
  // sums add the ranks' shares in rank order.
  Plan plan{};
  std::shared_ptr<record::Recorder> recorder{};  // of the process; null: nothing is recorded
};

// Collective over MPI_COMM_WORLD. Throws what start_mpi() throws, kTimeout, kConnection.
Ref<ProcessGroup> make_mpi_group(const MpiGroupOptions& options);

}  // namespace dl::collectives
