// What an operation is expected to take: Hockney's and LogP's terms (Hockney 1994; Culler et al.
// 1993), the same for every size, so that algorithms can be told apart before they run.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collectives/algorithms/schedule.h"

namespace dl::collectives {

// What ranks talk over.
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
  double o = 0;  // seconds that each further message of one step costs its sender
  double b = 0;  // seconds a byte, while both ways are in use
  double g = 0;  // seconds a byte of reduction, in cache
  friend bool operator==(const Link&, const Link&) noexcept = default;
};
// Round figures of the right order, not a measurement of any machine: `dlbench --tune` makes one.
// ethernet is a 10 Gbit/s line.
Link default_link(LinkKind kind) noexcept;

// Seconds. `bytes` is count * size of an element, as the operation takes its count.
double cost(OpKind op, Algorithm algorithm, int ranks, std::size_t bytes,
            const Link& link) noexcept;

}  // namespace dl::collectives
