// Operation: a Work of an MPI group.
//
// The caller fills it, whoever drives the group's Core runs it, anybody waits for it. Fields below
// "driver" are the driver's.
#pragma once

#include <vector>

#include "collectives/completion.h"
#include "collectives/descriptor.h"
#include "collectives/mpi/module.h"
#include "collectives/record/format.h"
#include "collectives/wait_policy.h"
#include "collectives/work.h"
#include "core/base/deadline.h"

namespace dl::collectives::mpi {

class Core;

class Operation : public Work {
 public:
  Operation(Ref<Core> core, const Descriptor& what, std::chrono::nanoseconds timeout,
            Ref<RefCounted> owner);
  ~Operation() override;

  void wait(Stream stream) override;
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override { return completion_.is_over(); }
  std::exception_ptr error() const noexcept override { return completion_.error(); }
  std::optional<std::chrono::steady_clock::time_point> completed_at() const noexcept override {
    return completion_.at();
  }

  // Sleeps until the operation is over or the deadline has passed.
  void sleep_until(Deadline until) { completion_.wait_until(until); }
  bool is_message() const noexcept {
    return descriptor.op == OpKind::kSend || descriptor.op == OpKind::kRecv;
  }

  // Driver. ---------------------------------------------------------------------------------------
  // Ends the operation, well where `error` is null.
  void end(std::exception_ptr error) noexcept { completion_.end(std::move(error)); }

  Descriptor descriptor;
  record::Slot* slot = nullptr;  // of the flight recorder
  std::vector<Handle> requests;  // that MPI has not ended

  const std::chrono::nanoseconds timeout;
  const Deadline::Clock::time_point begin;
  const Deadline deadline;
  Questions questions{};    // where the others are
  bool has_warned = false;  // for whom it waits

 private:
  Ref<Core> core_;
  Ref<RefCounted> owner_;
  Completion completion_;
};

// What every rank tells every other before a collective: what it calls, and its payload where that
// is small enough to travel along.
inline constexpr std::size_t kInlineBytes = 104;
struct Announcement {
  std::uint64_t sequence;
  std::uint64_t count;
  std::int32_t root;
  OpKind op;
  DType dtype;
  ReduceOp reduce;
  Order order;
  std::byte payload[kInlineBytes];
};
static_assert(sizeof(Announcement) == 128);

// What one rank tells another before an operation on parts: elements that it sends to it, and that
// it expects from it.
struct PairCounts {
  std::uint64_t sends;
  std::uint64_t expects;
};

class Collective final : public Operation {
 public:
  using Operation::Operation;
  std::string_view algorithm() const noexcept override;

  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  // Elements of each rank's part, where parts differ: what this rank sends to it, and receives.
  std::vector<std::size_t> send_counts, receive_counts;
  bool has_pairs = false;  // the counts are compared before the data moves

  // Driver.
  enum class Stage : std::uint8_t { kQueued, kAnnounced, kCompared, kMoving, kSharing, kSpreading };
  Stage stage = Stage::kQueued;
  Announcement own{};
  std::vector<Announcement> all;
  std::vector<PairCounts> told, heard;
  std::vector<std::byte> scratch;
  std::size_t reduced = 0;         // elements (of the longest part in reduce_scatter) that are over
  std::vector<std::size_t> slice;  // elements of each rank's part of the present slice
};

// Goes before a message's bytes.
struct MessageHeader {
  std::uint64_t number;  // of the sender's to this rank
  std::uint64_t count;
  std::uint32_t tag;
  DType dtype;
  std::uint8_t zero[3];
};

// One send or recv.
class Message final : public Operation {
 public:
  Message(Ref<Core> core, const Descriptor& what, std::chrono::nanoseconds time,
          Ref<RefCounted> owner, int other, std::byte* memory)
      : Operation(std::move(core), what, time, std::move(owner)),
        peer(other),
        buffer(memory),
        bytes(what.count * size_of(what.dtype)) {}

  // kAnySource until a message has been found for it.
  int peer;
  std::byte* const buffer;  // a send only reads it
  const std::size_t bytes;
  MessageHeader header{};   // driver; of a send
  bool is_matched = false;  // the same; a receive
  std::uint32_t tag() const noexcept { return static_cast<std::uint32_t>(descriptor.root); }
  std::optional<int> source() const noexcept override {
    if (descriptor.op != OpKind::kRecv || !is_completed() || error() != nullptr) {
      return std::nullopt;
    }
    return peer;
  }
};

}  // namespace dl::collectives::mpi
