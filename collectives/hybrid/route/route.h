// Routes: express an operation of a hybrid group as operations of its inner groups, as plain data.
//
// An operation is cut into slices: while one travels between nodes, the next one is summed inside
// the node and the previous one is distributed. Every slice passes three lanes in this order, each
// a group of its own:
//   in     the ranks of this node, over shared memory
//   cross  the ranks with this rank's index on all nodes, over TCP
//   out    the ranks of this node again; a second group, so that the order of operations is fixed
//          in each lane whatever the others do
// All ranks of a lane have the same list of slices. Results are moved and summed in the caller's
// own buffers. The route is a pure function of arguments that all ranks know: all decide alike, and
// a result has the same bits on every run. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/call/call.h"
#include "collectives/hybrid/route/places.h"

namespace dl::collectives::hybrid {

enum class Lane : std::uint8_t { kIn, kCross, kOut };
inline constexpr std::size_t kLanes = 3;

// Turns a sum over all nodes into an average.
struct Division {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::kF32;
  int ranks = 0;  // 0: nothing to do
};

struct Slice {
  // By Lane; nullopt: this rank has no call there. Their options are set when they start.
  std::array<std::optional<Call>, kLanes> calls{};
  Division division{};  // between cross and out
};

struct Route {
  std::vector<Slice> slices;
  Ref<RefCounted> memory{};  // for partial sums, to be kept until the operation is over
};

// Returns nullopt if the operation goes through the TCP group of all ranks: small operations, for
// which one exchange among all ranks is the fastest; reductions that must not send partial sums
// (wants_raw_shares); operations with a part for each rank if the nodes are uneven or the ranks not
// in order; and operations without a route. For an all_gather this rank's own part must be in the
// output before the first slice starts.
std::optional<Route> route(const Call& call, const Places& places, int rank);

}  // namespace dl::collectives::hybrid
