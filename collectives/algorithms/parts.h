// Schedules of the operations on parts: gather, scatter, all_to_all, and all_gather and
// reduce_scatter with counts that differ.
//
// A rank's own part is the backend's to copy (all but reduce_scatter). Input and output are
// separate memory, or a part stands where the v-variants allow it in place. Everybody talks to
// whom it has a part for, at once; pairs that have none exchange headers in all but gather and
// scatter, so that nobody leaves an operation without having heard of a mismatch. Pure functions;
// any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/algorithms/schedule.h"

namespace dl::collectives {

struct Part {
  std::size_t offset = 0;  // bytes into the input or output
  std::size_t bytes = 0;
};
// The parts of these counts, one behind the other.
std::vector<Part> pack(std::span<const std::size_t> counts, std::size_t element);

// The root takes parts[i] from rank i into its output; others look at parts[rank] alone and send
// it from their input, at its offset.
Schedule gather_schedule(std::span<const Part> parts, int root, int rank, int size);
// The root sends parts[i] of its input to rank i; others receive parts[rank] into their output.
Schedule scatter_schedule(std::span<const Part> parts, int root, int rank, int size);
Schedule all_to_all_schedule(std::span<const Part> send, std::span<const Part> receive, int rank,
                             int size);
// Every rank's input is its own part alone.
Schedule all_gather_schedule(std::span<const Part> parts, int rank, int size);
// Every rank's raw share of part i goes to rank i, which reduces them in rank order. The result
// lies in the output at `to`, or, with Region::kScratch, at the combine's offset in the scratch.
Schedule exchange_shares(std::span<const Part> parts, int rank, int size, Region region,
                         std::size_t to);

}  // namespace dl::collectives
