// Expected time of an operation, by which algorithms are ranked before they run. Its terms are
// those of Hockney (1994) and LogP (Culler et al. 1993), the same for every size.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collectives/algorithms/schedule.h"

namespace dl::collectives {

// The link between ranks.
enum class LinkKind : std::uint8_t {
  kShm,       // shared memory of one node
  kLoopback,  // TCP inside one node
  kEthernet   // TCP between nodes
};
inline constexpr std::size_t kLinkKindCount = 3;
// "shm", "loopback", "ethernet"
std::string_view name_of(LinkKind kind) noexcept;

struct Link {
  double a = 0;  // latency of a message, seconds
  double o = 0;  // seconds that each further message of a step costs its sender
  double b = 0;  // seconds a byte, with both directions in use
  double g = 0;  // seconds a byte of reduction, in cache
  friend bool operator==(const Link&, const Link&) noexcept = default;
};
// Round figures of the right magnitude, not measured on any machine: `dlbench --tune` measures.
// Ethernet is a 10 Gbit/s link.
Link default_link(LinkKind kind) noexcept;

// In seconds. `bytes` is count * size of an element, with the operation's own count.
double cost(OpKind op, Algorithm algorithm, int ranks, std::size_t bytes,
            const Link& link) noexcept;

}  // namespace dl::collectives
