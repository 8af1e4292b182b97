// Protocol: advances the collectives of one rank through the ranks' Blocks, one at a time and
// without blocking, in the order of their sequence numbers.
//
//   advance.cc  flags, chunks, copies and sums
//   inline.cc   payloads beside the flags
//   direct.cc   buffers in symmetric memory
//
// It reads and writes the segments and the callers' buffers, and knows no lock, thread, log or
// error: it returns what it finds. A value, so that the model checker (tests/collectives/shm/
// model) can run this code from every state. For the driver only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/shm/layout/layout.h"
#include "collectives/shm/layout/plan.h"
#include "collectives/shm/protocol/bells.h"
#include "collectives/shm/protocol/transfer.h"

namespace dl::collectives::shm {

// A rank's segment as another rank sees it.
struct View {
  Block* block = nullptr;
  std::byte* slots = nullptr;
  // The counters as last read.
  std::uint64_t staged = 0;
  std::uint64_t reduced = 0;
  std::uint64_t consumed = 0;
};

// A rank that has called another operation, or sends another count than this rank expects.
struct Mismatch {
  int rank = -1;
  bool is_of_count = false;
  Descriptor called{};  // the call of that rank
  // If is_of_count: elements of the part from that rank to this one.
  std::uint64_t sent = 0;
  std::uint64_t expected = 0;
};

enum class Outcome : std::uint8_t { kNothing, kMoved, kDone, kMismatch };

class Protocol {
 public:
  // `segments`: by rank. `slots`: how many are used; the same on all ranks.
  Protocol(int rank, std::span<std::byte* const> segments, std::size_t slots);

  // Makes it the next operation. The previous one must be done.
  void begin(Transfer& op) noexcept;
  Outcome advance(Transfer& op);
  // After kMismatch.
  const Mismatch& mismatch() const noexcept { return mismatch_; }
  // True if all ranks are known to have called the operation. Then its path is final.
  bool has_agreed(const Transfer& op) const noexcept { return op.next_to_agree == size_; }
  // True if the operation cannot be done before the rank has written something more.
  bool needs(const Transfer& op, int rank) const noexcept;
  // Prefetches the cell of the operation after `op`, which is done.
  void fetch_next(const Transfer& op) noexcept;
  // For an operation that fails: true if peers may still write into its buffer. They do so if they
  // see, now or later, that all ranks agree on the direct path.
  bool may_be_written(const Transfer& op) const noexcept;

  Bells& bells() noexcept { return bells_; }

  // Calls add() for every field that decides the next steps, for tests that compare states.
  template <typename Add>
  void visit_state(const Add& add) const;

 private:
  Block& own() noexcept { return *view(rank_).block; }
  View& view(int rank) noexcept { return views_[static_cast<std::size_t>(rank)]; }
  const View& view(int rank) const noexcept { return views_[static_cast<std::size_t>(rank)]; }
  std::byte* slot(int rank, std::uint64_t chunk) noexcept {
    return view(rank).slots + chunk % slots_ * kSlotBytes;
  }

  // advance.cc
  bool post(Transfer& op);
  Outcome agree(Transfer& op);
  bool has_agreed_counts(const Transfer& op, int rank);
  bool advance_chunk(Transfer& op);
  bool may_stage(std::uint64_t chunk) noexcept;
  bool all_have(std::uint64_t View::* seen, Counter Block::* counter, std::uint64_t count) noexcept;
  void stage(const Transfer& op, std::size_t k);
  void reduce_chunk(const Transfer& op, std::size_t k);
  void copy_chunk(const Transfer& op, std::size_t k);
  void publish(Counter& counter, std::uint64_t count) noexcept;

  // inline.cc
  void post_first_line(const Transfer& op, Cell& cell) const noexcept;
  void post_more_lines(const Transfer& op) noexcept;
  // True if this rank's part of the further lines of `from` has arrived. `from` must have called
  // the operation.
  bool has_payload(const Transfer& op, int from) const noexcept;
  void finish_inline(const Transfer& op);

  // direct.cc
  void choose_path(Transfer& op);
  Outcome advance_direct(Transfer& op);
  void work_directly(const Transfer& op, Range elements);

  int rank_;
  int size_;
  std::size_t slots_;
  std::vector<View> views_;  // by rank
  Bells bells_;
  std::uint64_t next_chunk_ = 0;
  std::vector<const void*> shares_;          // of the current sum, by rank
  std::vector<Claim> claims_;                // of the current operation, by rank
  std::vector<std::byte> taken_lines_;       // payloads of several lines, by rank
  std::array<std::size_t, 2> lines_used_{};  // behind the first, in each of this rank's cells
  Mismatch mismatch_{};
};

template <typename Add>
void Protocol::visit_state(const Add& add) const {
  add(next_chunk_);
  add(std::uint64_t{bells_.owes_settling()});
  for (const Claim& claim : claims_) {
    add(claim.memory);
    add(claim.chunks);
  }
  for (const View& seen : views_) {
    add(seen.staged);
    add(seen.reduced);
    add(seen.consumed);
  }
}

// Before Protocol::begin(), on any thread: writes into the claim how many chunks this rank has to
// give. Returns the buffer that other ranks may access directly if it lies in symmetric memory;
// empty: none.
std::span<const std::byte> begin_claim(Transfer& op, int size) noexcept;

// True if the payload has further lines.
inline bool has_more_lines(const Transfer& op) noexcept {
  return op.plan.payload > kLinePayload;
}

// dst = shares[0] op shares[1] op ..., in the order that `what` asks for.
void sum_shares(const Descriptor& what, std::byte* dst, std::span<const void* const> shares,
                std::size_t count);

}  // namespace dl::collectives::shm
