// dlbench's table of operations. A new operation of ProcessGroup is one more row in operation.cc.
//
// Rows are constants; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/call/descriptor.h"

namespace dl::collectives::bench {

// How large input and output are. "A share" is `count` elements, "the whole" is `size * count`.
enum class Share : std::uint8_t {
  kWhole,     // both whole
  kGathers,   // a share in, the whole out
  kScatters,  // the whole in, a share out
  kExchanges  // both whole, made of shares
};

enum class Place : std::uint8_t { kEither, kInOnly, kOutOnly };

class BareRing;
class BareNccl;

// One call, made as a user makes it.
struct TimedCall {
  const std::byte* input;
  std::byte* output;
  std::size_t count;                // as in the operation's options
  std::vector<std::size_t> counts;  // for a v-variant: `count` for every rank
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
  // The group's operation, whose row says how the buffers are used; kSend for sendrecv. Nullopt: it
  // runs on a BareRing instead of the group.
  std::optional<OpKind> kind;
  Place place;
  // busbw / algbw for p ranks, as nccl-tests defines it (doc/PERFORMANCE.md).
  double (*bus_factor)(double p);
  // Writes this rank's expected output, `count` as in TimedCall; null if there is no result.
  // Returns the number of elements: 0 on a rank that gets none.
  std::size_t (*expect)(const ProcessGroup& group, const TimedCall& call, std::byte* wanted);
  // Starts the operation. Null: the call that `kind` names.
  Ref<Work> (*start_own)(ProcessGroup& group, const TimedCall& call) = nullptr;

  Ref<Work> start(ProcessGroup& group, const TimedCall& call) const;
  bool reduces() const noexcept { return kind && row_of(*kind).reduces; }
  bool is_rooted() const noexcept { return kind && row_of(*kind).root != Root::kNone; }
  Share share() const noexcept;
};

std::span<const Operation> operations() noexcept;
// By name or by nccl-tests' name; null if there is none.
const Operation* find_operation(std::string_view name) noexcept;

}  // namespace dl::collectives::bench
