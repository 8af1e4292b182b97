#include "collectives/algorithms/cost.h"

#include <algorithm>
#include <bit>

#include "collectives/algorithms/all_reduce.h"

namespace dl::collectives {
namespace {

// Raw shares are written to memory and read again; a ring reduces data that is still in cache.
constexpr double kRawShare = 2;

// Thakur, Rabenseifner and Gropp 2005, section 3; direct and shares in the same terms.
double all_reduce_cost(Algorithm algorithm, double p, double n, const Link& l) noexcept {
  const auto core = static_cast<double>(std::bit_floor(static_cast<unsigned>(p)));
  const auto rounds = static_cast<double>(std::bit_width(static_cast<unsigned>(p)) - 1);
  const double others = (p - 1) / p;
  const double outside = core < p ? 2 * (l.a + n * l.b) + n * l.g : 0;
  const double step = l.a + (p - 2) * l.o;  // every rank to every other
  if (algorithm == Algorithm::kDoubling && p < kLeastRanksToDouble) algorithm = Algorithm::kDirect;
  switch (algorithm) {
    case Algorithm::kShares:
      return 2 * step + others * n * (2 * l.b + kRawShare * l.g);
    case Algorithm::kRing:
      return 2 * (p - 1) * l.a + others * n * (2 * l.b + l.g);
    case Algorithm::kDoubling:
      return rounds * (l.a + n * (l.b + l.g)) + outside;
    case Algorithm::kHalving:
      return 2 * rounds * l.a + (core - 1) / core * n * (2 * l.b + l.g) + outside;
    default:
      return step + (p - 1) * n * (l.b + kRawShare * l.g);
  }
}

}  // namespace

std::string_view name_of(LinkKind kind) noexcept {
  constexpr std::string_view kNames[kLinkKindCount] = {"shm", "loopback", "ethernet"};
  return kNames[static_cast<std::size_t>(kind)];
}

Link default_link(LinkKind kind) noexcept {
  switch (kind) {
    case LinkKind::kShm:
      return {.a = 0.3e-6, .o = 0.1e-6, .b = 0.1e-9, .g = 0.05e-9};
    case LinkKind::kLoopback:
      return {.a = 5e-6, .o = 2e-6, .b = 0.2e-9, .g = 0.05e-9};
    case LinkKind::kEthernet:
      break;
  }
  return {.a = 30e-6, .o = 3e-6, .b = 0.85e-9, .g = 0.05e-9};
}

double cost(OpKind op, Algorithm algorithm, int ranks, std::size_t bytes, const Link& l) noexcept {
  if (ranks < 2) return 0;
  const double p = ranks;
  const auto n = static_cast<double>(bytes);
  const double step = l.a + (p - 2) * l.o;
  const auto tree = static_cast<double>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  const bool is_direct = algorithm == Algorithm::kDirect;
  if (row_of(op).scatters_sum()) {
    return is_direct ? step + (p - 1) * n * (l.b + kRawShare * l.g)
                     : (p - 1) * (l.a + n * (l.b + l.g));
  }
  switch (op) {
    case OpKind::kAllReduce:
      return all_reduce_cost(algorithm, p, n, l);
    case OpKind::kReduce:
      if (is_direct) return step + (p - 1) * n * (l.b + kRawShare * l.g);
      if (algorithm == Algorithm::kChain) return (p - 1) * l.a + n * (l.b + l.g);
      return 2 * step + (p - 1) / p * n * (2 * l.b + kRawShare * l.g);
    case OpKind::kBroadcast:
      return algorithm == Algorithm::kTree ? tree * (l.a + n * l.b) : (p - 1) * l.a + n * l.b;
    case OpKind::kBarrier:
      return tree * l.a;
    case OpKind::kSend:
    case OpKind::kRecv:
      return l.a + n * l.b;
    default:
      return is_direct ? step + (p - 1) * n * l.b : (p - 1) * (l.a + n * l.b);
  }
}

}  // namespace dl::collectives
