// Schedules: what one rank sends and receives in a collective, as plain data.
//
// A schedule says nothing about sockets or threads: a backend executes it, and a test executes the
// schedules of all ranks in memory, in random order. Transfers with one peer happen in the order in
// which they stand, independently of those with other peers. A dependency holds byte by byte, which
// is what makes a ring or a chain a pipeline: a byte may leave once the receive that it forwards
// has put it into its place.
//
// Which one of an operation's algorithms runs is the plan's choice (plan.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/descriptor.h"

namespace dl::collectives {

enum class Algorithm : std::uint8_t {
  kDirect,        // every rank to every other that needs it, at once
  kShares,        // raw shares to the rank that sums them, results from there
  kRing,          // partial sums, or parts, around the ring
  kDoubling,      // recursive doubling: pairs exchange their sums
  kHalving,       // halving and doubling: pairs exchange halves of them, then the results
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
  kReduceLast,  // the same, then finished (avg is divided)
};

struct Transfer {
  static constexpr int kNothing = -1;
  static constexpr int kCombined = -2;  // sends only: bytes of the combined range

  int peer = 0;
  Region region = Region::kInput;
  Apply apply = Apply::kStore;  // receives only
  std::size_t offset = 0;       // bytes into the region
  std::size_t bytes = 0;        // zero: a header alone, which says "I am in this operation"
  // kReduce: where this rank's operand stands, and the receive that puts it there.
  Region own = Region::kInput;
  std::size_t own_offset = 0;
  int own_from = kNothing;
  bool own_first = false;  // own op received; min and max of equal operands are the later one
  // A send: the receive whose bytes, or a part of them, it forwards. A receive: the send that must
  // have left before, as its bytes are overwritten or (zero bytes) as rounds must not overtake each
  // other.
  int after = kNothing;
  bool after_all = false;  // a send: that receive and all before it must be over
};

// region[offset, offset + bytes) = share 0 op share 1 op ..., in rank order or along the tree of
// reduce.h as the call says, finished and rounded once.
struct Combine {
  Region region = Region::kOutput;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::size_t input_offset = 0;   // this rank's own share
  std::vector<int> receives{};    // a rank's receive that brings its share to scratch; own rank: -1
  std::vector<int> overwrites{};  // sends whose bytes the result may overwrite
};

struct Schedule {
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
  std::optional<Combine> combine;
  std::size_t scratch_bytes = 0;
  Algorithm algorithm = Algorithm::kDirect;  // that it follows
};

// Whether this reduction's partial sums must not travel: they would be rounded on the way
// (reduce.h), or have the order of the way they take.
bool wants_raw_shares(const Descriptor& descriptor) noexcept;
// The algorithms that an operation has; with `raw_shares` those whose partial sums do not travel.
std::span<const Algorithm> algorithms_of(OpKind op, bool raw_shares) noexcept;

// `in_place`: input and output are the same memory.
// Not for the operations on parts (parts.h). `algorithm` is one of algorithms_of().
Schedule make_schedule(const Descriptor& descriptor, Algorithm algorithm, int rank, int size,
                       bool in_place);

}  // namespace dl::collectives
