// What dlbench knows of each operation: one row a name. A new operation of ProcessGroup is one more
// row in operation.cc.
//
// Rows are constants; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/descriptor.h"
#include "collectives/process_group.h"
#include "core/device/stream.h"

namespace dl::collectives::bench {

// How many elements input and output have, where the whole is `size * count` for the operations
// that cut it into shares.
enum class Share : std::uint8_t {
  kWhole,     // all_reduce: both whole
  kGathers,   // all_gather, gather: a share in, the whole out
  kScatters,  // reduce_scatter, scatter: the whole in, a share out
  kExchanges  // all_to_all: both whole, made of shares
};

enum class Place : std::uint8_t { kEither, kInOnly, kOutOnly };

class BareRing;
class BareNccl;

// One call: what is measured is the call that a user makes.
struct Call {
  const std::byte* input;
  std::byte* output;
  std::size_t count;                // as the operation's options take it
  std::vector<std::size_t> counts;  // of a v-variant: `count` for every rank
  DType dtype;
  ReduceOp reduce;
  int root;
  CallOptions options;
  BareRing* ring = nullptr;  // for `floor`
  BareNccl* nccl = nullptr;  // for --bare
};

struct Operation {
  std::string_view name;       // "all_reduce"
  std::string_view perf_name;  // nccl-tests' program, "all_reduce_perf"; empty: it has none
  Share share;
  Place place;
  bool reduces;
  bool rooted;
  bool bare = false;  // runs on a BareRing instead of the group
  // busbw / algbw for p ranks (nccl-tests, doc/PERFORMANCE.md): what the busiest link carries.
  double (*bus_factor)(double p);
  Ref<Work> (*start)(ProcessGroup& group, const Call& call);
  // Writes what this rank's output must be, `count` as in Call; null where there is no result.
  // Returns the elements written: 0 on a rank that gets none.
  std::size_t (*expect)(const ProcessGroup& group, const Call& call, std::byte* wanted);
};

std::span<const Operation> operations() noexcept;
// By name or nccl-tests' name; null where there is none.
const Operation* find_operation(std::string_view name) noexcept;

// The group's operation that a row calls; nullopt for the bare exchange.
std::optional<OpKind> kind_of(const Operation& operation) noexcept;

}  // namespace dl::collectives::bench
