#include <fmt/core.h>
#include <unistd.h>

#include "core/base/error.h"
#include "launcher/pmi/pmix_server.h"
#include "launcher/pmi/which_mpi.h"

namespace dl::launcher {
namespace {

constexpr const char* kUnserved =
    "--mpi none starts it all the same, each rank as a job of its own";

void check_helper(const std::string& why) {
  DL_CHECK(::access(pmix_helper().c_str(), X_OK) == 0, kInvalidArgument,
           "{}, which takes {}: dlrun was built without libpmix (Debian's libpmix-dev), so start "
           "the program with `mpirun -n N` or `srun --mpi=pmix`; {}",
           why, pmix_helper(), kUnserved);
}

}  // namespace

Mpi mpi_to_serve(const Options& options, const Program& program) {
  if (options.job.mpi == Mpi::kPmix) check_helper("--mpi is pmix");
  if (options.job.mpi != Mpi::kAuto) return options.job.mpi;
  const WhichMpi mpi = program.can_be_read ? which_mpi(program.path) : WhichMpi();
  if (mpi.kind == MpiKind::kNone) return Mpi::kNone;
  const bool is_mpich = mpi.kind == MpiKind::kMpich;
  const std::string linked = fmt::format("{} is linked to {} ({})", program.path,
                                         is_mpich ? "MPICH" : "Open MPI", mpi.library);
  if (!is_mpich) {
    check_helper(linked);
    return Mpi::kPmix;
  }
  DL_CHECK(options.where.nnodes == 1, kInvalidArgument,
           "{}, whose processes dlrun joins on one node only: start it on {} nodes with `mpirun "
           "-n N --hosts ...` or `srun --mpi=pmi2`; {}",
           linked, options.where.nnodes, kUnserved);
  return Mpi::kPmi1;
}

}  // namespace dl::launcher
