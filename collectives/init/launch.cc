#include "collectives/init/launch.h"

#include <limits>

#include "core/base/env.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

using env::Var;

struct Source {
  std::string_view told_by;
  Var rank;
  Var world_size;
};

// In order of precedence. SLURM's variables count only inside a step of srun, because a batch
// script has SLURM_PROCID too, but no other ranks.
constexpr Source kSources[] = {
    {"RANK and WORLD_SIZE", Var::kRank, Var::kWorldSize},
    {"mpirun (Open MPI)", Var::kOmpiRank, Var::kOmpiSize},
    {"mpirun (PMI)", Var::kPmiRank, Var::kPmiSize},
    {"srun", Var::kSlurmRank, Var::kSlurmStepTasks},
};

int to_int(std::int64_t value, std::string_view name) {
  DL_CHECK(value >= 0 && value <= std::numeric_limits<int>::max(), kInvalidArgument,
           "{}={} is out of range: ranks and their number are whole numbers from 0 to {}", name,
           value, std::numeric_limits<int>::max());
  return static_cast<int>(value);
}

}  // namespace

Launch find_launch(std::optional<int> rank, std::optional<int> world_size) {
  Launch launch;
  if (rank && world_size) {
    launch = {*rank, *world_size, "the program"};
  } else {
    for (const Source& source : kSources) {
      const auto found_rank = env::get_int(source.rank);
      const auto found_size = env::get_int(source.world_size);
      const bool has_rank = rank || found_rank;
      const bool has_size = world_size || found_size;
      // In a batch script SLURM sets the rank alone. Every other launcher sets both variables.
      if (source.rank != Var::kSlurmRank && (found_rank || found_size)) {
        DL_CHECK(has_rank && has_size, kInvalidArgument,
                 "{} is set and {} is not; set both, or neither for a world of one",
                 env::name_of(has_rank ? source.rank : source.world_size),
                 env::name_of(has_rank ? source.world_size : source.rank));
      }
      if (!(found_rank || found_size) || !has_rank || !has_size) continue;
      launch = {rank ? *rank : to_int(*found_rank, env::name_of(source.rank)),
                world_size ? *world_size : to_int(*found_size, env::name_of(source.world_size)),
                source.rank == Var::kPmiRank && env::is_pmi_of_srun() ? "srun" : source.told_by};
      break;
    }
    launch.rank = rank.value_or(launch.rank);
    launch.world_size = world_size.value_or(launch.world_size);
  }
  DL_CHECK(launch.world_size >= 1 && launch.rank >= 0 && launch.rank < launch.world_size,
           kInvalidArgument, "rank is {} (set by {}) of a world size of {} (set by {})",
           launch.rank, rank ? "the program" : launch.told_by, launch.world_size,
           world_size ? "the program" : launch.told_by);
  return launch;
}

JobPlace find_job_place() {
  const auto job = env::get(Var::kJobId);
  return {.is_in_job = job.has_value(),
          .job = job.value_or("local"),
          .generation = static_cast<std::uint64_t>(env::get_int(Var::kGeneration).value_or(0)),
          .node = env::get(Var::kNodeId).value_or(""),
          .iface = env::get(Var::kIface).value_or("")};
}

}  // namespace dl::collectives
