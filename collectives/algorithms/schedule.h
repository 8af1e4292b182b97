// Schedules: what one rank sends and receives in a collective, as plain data.
//
// A schedule says nothing about sockets or threads: a backend executes it, and a test executes the
// schedules of all ranks in memory, in random order. Transfers with one peer happen in the order in
// which they stand, independently of those with other peers. A dependency (`after`) holds byte by
// byte, which is what makes a ring or a chain a pipeline: byte x of a send may leave once byte x of
// the receive it forwards was applied.
//
// Which schedule an operation takes is a pure function of its descriptor and the group's size
// (plan), so that all ranks decide alike and a result has the same bits on every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/descriptor.h"

namespace dl::collectives {

enum class Region : std::uint8_t { kInput, kOutput, kScratch };

enum class Apply : std::uint8_t {
  kStore,       // the bytes are the result
  kReduce,      // region[offset] = received op input[input_offset]
  kReduceLast,  // the same, then finished (avg is divided)
};

struct Transfer {
  static constexpr int kNothing = -1;
  static constexpr int kCombined = -2;  // sends only: bytes of the combined range

  int peer = 0;
  Region region = Region::kInput;
  Apply apply = Apply::kStore;   // receives only
  std::size_t offset = 0;        // bytes into the region
  std::size_t bytes = 0;         // zero: a header alone, which says "I am in this operation"
  std::size_t input_offset = 0;  // kReduce: where this rank's own share stands in the input
  // A send: the receive whose bytes it forwards. A receive: the send that must have left before, as
  // its bytes are overwritten or (zero bytes) as rounds must not overtake each other.
  int after = kNothing;
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
};

enum class Algorithm : std::uint8_t { kDirect, kRing, kTree, kChain, kDissemination };

// "direct", "ring", ...
std::string_view name_of(Algorithm algorithm) noexcept;

// At most this many bytes leave a rank in the direct exchange of a small operation; above,
// bandwidth decides.
inline constexpr std::size_t kSmallBytes = 64 * 1024;

Algorithm plan(const Descriptor& descriptor, int size) noexcept;

// `in_place`: input and output are the same memory.
// Not for the operations on parts (parts.h).
Schedule make_schedule(const Descriptor& descriptor, int rank, int size, bool in_place);

}  // namespace dl::collectives
