// Schedules of the operations on parts: gather, scatter, all_to_all and the v-variants.
//
// The backend copies a rank's own part (copy_own_part), except in a reduction. Input and output are
// separate memory, or a part is in the place that the v-variant allows. A rank exchanges all its
// parts at once. Every pair of ranks exchanges at least headers (in gather and scatter: the root
// and each other rank), so that no rank leaves an operation without having heard of a mismatch.
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/algorithms/schedule.h"
#include "collectives/call/call.h"

namespace dl::collectives {

struct Part {
  std::size_t offset = 0;  // bytes into the input or output
  std::size_t bytes = 0;
};
// The parts with these counts, one behind the other.
std::vector<Part> pack(std::span<const std::size_t> counts, std::size_t element);

// True for the operations whose schedules stand here; the others have one in schedule.h.
bool has_parts_schedule(OpKind op) noexcept;
Schedule parts_schedule(const Call& call, int rank, int size);

// The root receives parts[i] from rank i into its output. Other ranks use parts[rank] alone and
// send it from their input, at its offset.
Schedule gather_schedule(std::span<const Part> parts, int root, int rank, int size);
// The root sends parts[i] of its input to rank i; other ranks receive parts[rank] into their
// output.
Schedule scatter_schedule(std::span<const Part> parts, int root, int rank, int size);
Schedule all_to_all_schedule(std::span<const Part> send, std::span<const Part> receive, int rank,
                             int size);
// Every rank's input is its own part alone.
Schedule all_gather_schedule(std::span<const Part> parts, int rank, int size);
// Rank i receives every rank's raw share of part i and reduces them in rank order. The result is in
// the output at `to`, or, with Region::kScratch, at the combine's offset in scratch.
Schedule exchange_shares(std::span<const Part> parts, int rank, int size, Region region,
                         std::size_t to);

}  // namespace dl::collectives
