// Call: one call of a group as plain data, made from the call's options and checked once
// (checks.h). A backend gets nothing else. A Call does not own what it points to, and is valid
// until ProcessGroup::start() returns. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/call/descriptor.h"
#include "collectives/call/options.h"

namespace dl::collectives {

// The elements of a buffer that go to, or come from, each rank.
class PartsView {
 public:
  constexpr PartsView() = default;  // none
  // Every rank gets, or gives, the same `count` elements.
  static constexpr PartsView whole(std::size_t count) noexcept { return {count, 0, {}}; }
  // `count` elements for each rank, in rank order.
  static constexpr PartsView each(std::size_t count) noexcept { return {count, count, {}}; }
  // counts[r] elements for rank r, in rank order.
  static constexpr PartsView of(std::span<const std::size_t> counts) noexcept {
    return {0, 0, counts};
  }

  // Empty: all parts have count() elements.
  std::span<const std::size_t> counts() const noexcept { return counts_; }
  std::size_t count() const noexcept { return count_; }  // of each part, if counts() is empty
  std::size_t step() const noexcept { return step_; }    // from part to part, if counts() is empty

  std::size_t count(int rank) const noexcept {
    return counts_.empty() ? count_ : counts_[static_cast<std::size_t>(rank)];
  }
  // Elements in front of the part.
  std::size_t before(int rank) const noexcept {
    const auto r = static_cast<std::size_t>(rank);
    return counts_.empty() ? r * step_ : sum(counts_.first(r));
  }
  // Elements of the whole buffer.
  std::size_t all(int size) const noexcept {
    if (!counts_.empty()) return sum(counts_);
    return step_ == 0 ? count_ : static_cast<std::size_t>(size) * count_;
  }

 private:
  constexpr PartsView(std::size_t count, std::size_t step,
                      std::span<const std::size_t> counts) noexcept
      : count_(count), step_(step), counts_(counts) {}
  static std::size_t sum(std::span<const std::size_t> counts) noexcept {
    std::size_t all = 0;
    for (const std::size_t count : counts) all += count;
    return all;
  }

  std::size_t count_ = 0;
  std::size_t step_ = 0;
  std::span<const std::size_t> counts_{};
};

struct Call {
  Descriptor what{};
  const void* input = nullptr;
  PartsView gives{};  // parts of the input, to each rank
  void* output = nullptr;
  PartsView takes{};  // parts of the output, from each rank
  int peer = -1;      // of a send or receive
  const CallOptions* options = nullptr;

  const OpRow& row() const noexcept { return row_of(what.op); }
  // The buffer of a message, which a send only reads.
  void* memory() const noexcept { return output != nullptr ? output : const_cast<void*>(input); }
  // True if the operation reads this rank's input.
  bool reads(int rank) const noexcept { return row().root != Root::kGives || rank == what.root; }
  // True if it writes this rank's output.
  bool writes(int rank) const noexcept { return row().root != Root::kTakes || rank == what.root; }
  // True if the data that arrives from a rank overwrites the data to be sent to that rank.
  bool exchanges_in_place() const noexcept {
    return row().input == Side::kEach && row().output == Side::kEach && input == output;
  }
};

// A collective's options, for code that does not depend on the operation.
struct Arguments {
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;  // as in the options; for a v-variant: elements of this rank's part
  // For a v-variant: one count for each rank, on the side that is divided into parts. In gatherv
  // and scatterv only the root sets it.
  std::span<const std::size_t> input_counts{};
  std::span<const std::size_t> output_counts{};
  DType dtype = DType::kU8;
  ReduceOp reduce = ReduceOp::kSum;
  int root = -1;
  const CallOptions* options = nullptr;
};
Call make_call(OpKind op, const Arguments& arguments) noexcept;
// make_call() for arguments of a user's, in a call by `rank` of `size` ranks. For a v-variant it
// reads the counts that this rank must give, and ignores the others. It throws kInvalidArgument
// unless there is one count for each rank. If all ranks give the same counts, it sets `count`.
Call make_call(OpKind op, Arguments arguments, int rank, int size);

Call call_of(const AllReduceOptions& options) noexcept;
Call call_of(const BroadcastOptions& options) noexcept;
Call call_of(const AllGatherOptions& options) noexcept;
Call call_of(const ReduceScatterOptions& options) noexcept;
Call call_of(const BarrierOptions& options) noexcept;
Call call_of(const ReduceOptions& options) noexcept;
Call call_of(const GatherOptions& options) noexcept;
Call call_of(const ScatterOptions& options) noexcept;
Call call_of(const AllToAllOptions& options) noexcept;
// The v-variants, called by `rank` of `size` ranks. Throws kInvalidArgument unless there is one
// count for each rank.
Call call_of(const AllGathervOptions& options, int rank, int size);
Call call_of(const ReduceScattervOptions& options, int rank, int size);
Call call_of(const GathervOptions& options, int rank, int size);
Call call_of(const ScattervOptions& options, int rank, int size);
Call call_of(const AllToAllvOptions& options, int rank, int size);
// The descriptor's `root` holds the message's tag.
Call call_of(const SendOptions& options) noexcept;
Call call_of(const RecvOptions& options) noexcept;
Call call_of(const PeerMessage& message) noexcept;

const CallOptions& options_of(const PeerMessage& message) noexcept;

// Copies this rank's own part from the input to the output, unless it is in place. Does nothing for
// a reduction. Backends call it on the caller's thread, because a long copy on the driving thread
// would delay other operations.
void copy_own_part(const Call& call, int rank) noexcept;

// An all_to_all whose input and output are one buffer, with a copy of the input instead. The call's
// keep_alive owns the copy until the operation is over.
class SeparateCall {
 public:
  SeparateCall(const Call& call, int size);
  SeparateCall(const SeparateCall&) = delete;
  SeparateCall& operator=(const SeparateCall&) = delete;
  const Call& call() const noexcept { return call_; }

 private:
  CallOptions options_;
  Call call_;
};

}  // namespace dl::collectives
