// Listing A.12: headers that training on several ranks needs besides those of the other listings.
// (dlrun.h includes all of them.)
#pragma once

#include "collectives/init/init.h"    // init_process_group, destroy_process_group
#include "collectives/init/spawn.h"   // spawn: torch.multiprocessing
#include "nn/data/sampler.h"          // DistributedSampler
#include "nn/parallel/distributed.h"  // DistributedDataParallel
