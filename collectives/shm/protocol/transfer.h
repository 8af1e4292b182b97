// Transfer: a collective as the protocol sees it: what the ranks call, this rank's buffers, the
// path of the bytes, and how far this rank is.
//
// A value that owns no buffer. Its Operation owns it; from begin() until it is done, only the
// driver touches it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/call/call.h"
#include "collectives/shm/layout/layout.h"
#include "collectives/shm/layout/plan.h"

namespace dl::collectives::shm {

struct Transfer {
  Transfer() = default;
  // Its sequence, hash and plan are still to be set.
  explicit Transfer(const Call& call)
      : descriptor(call.what),
        kind(call.row().fixed_count),
        input(static_cast<const std::byte*>(call.input)),
        gives(call.gives),
        output(static_cast<std::byte*>(call.output)),
        takes(call.takes) {}

  Descriptor descriptor{};
  OpKind kind = OpKind::kBarrier;  // the descriptor's; for a v-variant its fixed-count form
  std::uint32_t hash = 0;
  const std::byte* input = nullptr;
  Parts gives{};  // parts of the input, to each rank
  std::byte* output = nullptr;
  Parts takes{};  // parts of the output, from each rank
  Plan plan{};
  // If the buffer that other ranks may access lies in symmetric memory: the addresses of all ranks'
  // parts of that memory, by rank. Otherwise null.
  std::byte* const* memory = nullptr;
  Claim claim{};

  // Progress. Chunks are counted from the operation's first chunk, which is number `first_chunk` of
  // the group.
  bool is_posted = false;
  int next_to_agree = 0;  // all lower ranks have called the same operation
  std::uint64_t first_chunk = 0;
  std::size_t staged = 0;
  std::size_t reduced = 0;
  std::size_t copied = 0;
  bool has_claims = false;  // some rank's buffer is symmetric: flags do not tell what is staged
  std::size_t worked = 0;   // direct path: elements of this rank's share that are done
  bool is_worked_out = false;
};

}  // namespace dl::collectives::shm
