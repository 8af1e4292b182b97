// Tells whether PMI_RANK and PMI_SIZE come from mpirun, or from srun itself, which sets them beside
// its own variables if it speaks PMI (--mpi=pmi2).
#pragma once

#include "core/base/env.h"

namespace dl {

// They are srun's if they have the values of srun's own. An mpirun that runs inside a step of srun
// gives its ranks other ones.
inline bool is_pmi_of_srun() {
  const auto rank = env::get_int(env::Var::kPmiRank);
  const auto size = env::get_int(env::Var::kPmiSize);
  return rank && size && rank == env::get_int(env::Var::kSlurmRank) &&
         size == env::get_int(env::Var::kSlurmStepTasks);
}

}  // namespace dl
