// Which CPUs each rank of a node is bound to: a pure rule over the machine's cores.
//
//   core     rank r gets the cores r T to r T + T - 1, T of them for its T threads
//            (K. Costa, Accelerate Model Training with PyTorch 2.X, chapter 9)
//   even     all cores, in equal runs that differ by at most one core
//   numa     all cores of the rank's NUMA node
//   socket   all cores of the rank's socket
//
// Ranks that have GPUs take the cores near them, in the same way, unless the order of the cores was
// chosen otherwise or these cores are too few.
//
// Two ranks get hardware threads of one core only if there are more ranks than cores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/bind/topology.h"

namespace dl::launcher {

enum class Bind : std::uint8_t { kNone, kCore, kEven, kNuma, kSocket };

// The order in which ranks take cores.
enum class MapBy : std::uint8_t {
  kCore,    // one after another
  kNuma,    // rank r goes to NUMA node r mod n, so neighbours are apart
  kSocket,  // rank r goes to socket r mod n
};

struct BindRequest {
  Bind bind = Bind::kNone;
  MapBy map_by = MapBy::kCore;
  int ranks = 1;
  std::optional<int> threads{};  // of a rank, if the user gave the number
  // The CPUs near each rank's GPU; if the list or one of them is empty, none counts.
  std::vector<std::vector<int>> near{};
};

struct Binding {
  std::vector<int> cpus;                 // ascending; empty: not bound
  std::vector<std::vector<int>> places;  // CPUs by core, for OMP_PLACES; empty: not bound
  int threads = 1;                       // threads, each with a core that no other rank shares
};

// Returns a binding for each rank. Throws kInvalidArgument with one sentence if the ranks do not
// fit.
std::vector<Binding> bind_ranks(const Topology& topology, const BindRequest& request);

}  // namespace dl::launcher
