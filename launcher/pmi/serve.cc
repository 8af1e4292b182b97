
#include "core/base/error.h"
#include "launcher/pmi/which_mpi.h"

namespace dl::launcher {

bool is_to_serve_pmi(const Options& options, const Program& program) {
  if (options.job.mpi != Mpi::kAuto) return options.job.mpi == Mpi::kPmi1;
  const WhichMpi mpi = program.can_be_read ? which_mpi(program.path) : WhichMpi();
  if (mpi.kind == MpiKind::kNone) return false;
  constexpr const char* kInsist =
      "--mpi none starts it all the same, each rank as a job of its own";
  DL_CHECK(mpi.kind != MpiKind::kOpenMpi, kInvalidArgument,
           "{} is linked to Open MPI ({}), whose processes dlrun cannot join: start it with "
           "`mpirun -n N` or `srun --mpi=pmix`; {}",
           program.path, mpi.library, kInsist);
  DL_CHECK(options.where.nnodes == 1, kInvalidArgument,
           "{} is linked to MPICH ({}), whose processes dlrun joins on one node only: start it on "
           "{} nodes with `mpirun -n N --hosts ...` or `srun --mpi=pmi2`; {}",
           program.path, mpi.library, options.where.nnodes, kInsist);
  return true;
}

}  // namespace dl::launcher
