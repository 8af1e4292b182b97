// Schedules: what one rank sends and receives in a collective, as plain data.
//
// A schedule knows no sockets or threads: a backend executes it, and a test executes the schedules
// of all ranks in memory, in random order. Transfers with one peer happen in list order,
// independently of those with other peers. A send that forwards a receive depends on it byte by
// byte: a byte may leave as soon as it has arrived. So a ring or a chain is a pipeline.
//
// The plan chooses which of an operation's algorithms runs (plan.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/call/descriptor.h"

namespace dl::collectives {

enum class Algorithm : std::uint8_t {
  kDirect,        // every rank to every other that needs it, at once
  kShares,        // raw shares to the rank that sums them, results from there
  kRing,          // partial sums, or parts, around the ring
  kDoubling,      // recursive doubling: pairs exchange their sums
  kHalving,       // halving and doubling: pairs exchange halves of their sums, then the results
  kTree,          // binomial
  kChain,         // from neighbour to neighbour
  kDissemination  // barrier
};
inline constexpr std::size_t kAlgorithmCount = 8;
// "direct", "shares", ...
std::string_view name_of(Algorithm algorithm) noexcept;

enum class Region : std::uint8_t { kInput, kOutput, kScratch };

enum class Apply : std::uint8_t {
  kStore,       // the bytes are the result
  kReduce,      // region[offset] = received op own[own_offset]
  kReduceLast,  // kReduce, then finished (avg is divided)
};

struct Transfer {
  static constexpr int kNothing = -1;
  static constexpr int kCombined = -2;  // sends only: bytes of the combined range

  int peer = 0;
  Region region = Region::kInput;
  Apply apply = Apply::kStore;  // receives only
  std::size_t offset = 0;       // bytes into the region
  std::size_t bytes = 0;        // zero: a header alone, which tells "I am in this operation"
  // kReduce: place of this rank's operand, and the receive that stores it.
  Region own = Region::kInput;
  std::size_t own_offset = 0;
  int own_from = kNothing;
  bool own_first = false;  // own op received: min and max return the later of equal operands
  // For a send: the receive whose bytes it forwards. For a receive: the send that must have left
  // before, because its bytes are overwritten, or (zero bytes) because rounds must not overtake
  // each other. It stands there even if the bytes can arrive only after that send has left: MPI
  // must not even be told to receive before.
  int after = kNothing;
  bool after_all = false;  // for a send: receive `after` and all before it must be over
};

// region[offset, offset + bytes) = share 0 op share 1 op ..., finished and rounded once; in rank
// order or along the tree of reduce.h, as the call says.
struct Combine {
  Region region = Region::kOutput;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::size_t input_offset = 0;  // this rank's own share
  // By rank: the receive that brings its share to scratch; own rank: -1.
  std::vector<int> receives{};
  std::vector<int> overwrites{};  // sends whose bytes the result may overwrite
};

struct Schedule {
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
  std::optional<Combine> combine;
  std::size_t scratch_bytes = 0;
  Algorithm algorithm = Algorithm::kDirect;  // the algorithm it implements
};

// True if this reduction must not send partial sums: they would be rounded on the way (reduce.h),
// or the order of additions would depend on their path.
bool wants_raw_shares(const Descriptor& descriptor) noexcept;
// The algorithms of an operation; with `raw_shares` those that do not send partial sums.
std::span<const Algorithm> algorithms_of(OpKind op, bool raw_shares) noexcept;

// `in_place`: input and output are the same memory. Not for the operations on parts (parts.h).
// `algorithm` is one of algorithms_of().
Schedule make_schedule(const Descriptor& descriptor, Algorithm algorithm, int rank, int size,
                       bool in_place);

}  // namespace dl::collectives
