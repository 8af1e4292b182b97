#include "launcher/cli/slurm_line.h"

#include <fmt/core.h>

#include <optional>

#include "core/base/env.h"

namespace dl::launcher {
namespace {

using env::Var;

constexpr const char* kInsist = "For {} jobs of their own: --standalone";

std::string under_srun(std::int64_t task, std::int64_t tasks) {
  return fmt::format(
             "this is task {} of {} of one srun, and each would be a job of its own that does the "
             "same. For one job: srun --ntasks-per-node=1 dlrun, without --nnodes 1. ",
             task, tasks) +
         fmt::format(kInsist, tasks);
}

std::string under_mpirun(std::int64_t rank, std::int64_t ranks) {
  return fmt::format(
             "this is rank {} of {} of one mpirun, and each would be a job of its own that does "
             "the same. For one job, start dlrun without mpirun, once a node: dlrun "
             "--nproc-per-node {} ... . ",
             rank, ranks, ranks) +
         fmt::format(kInsist, ranks);
}

}  // namespace

std::string one_of_several_jobs() {
  if (env::is_set(Var::kJobId)) return "";  // a rank of another dlrun started this dlrun
  struct Names {
    Var rank, size;
  };
  for (const Names& mpi :
       {Names{Var::kOmpiRank, Var::kOmpiSize}, Names{Var::kPmiRank, Var::kPmiSize}}) {
    if (mpi.rank == Var::kPmiRank && env::is_pmi_of_srun()) continue;
    const auto rank = env::get_int(mpi.rank);
    const auto size = env::get_int(mpi.size);
    if (rank && size && *size > 1) return under_mpirun(*rank, *size);
  }
  const auto slurm = env::get_int(Var::kSlurmRank);
  const auto tasks = env::get_int(Var::kSlurmStepTasks);
  if (slurm && tasks && *tasks > 1) return under_srun(*slurm, *tasks);
  return "";
}

}  // namespace dl::launcher
