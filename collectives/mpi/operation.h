// Operation: a Work of an MPI group.
//
// The caller fills it, the driver of the group's Core runs it, any thread waits for it. Fields
// below "driver" are touched only by the driver.
#pragma once

#include <vector>

#include "collectives/call/call.h"
#include "collectives/mpi/module/module.h"
#include "collectives/record/format.h"
#include "collectives/waiting/completion.h"
#include "collectives/waiting/judge/judge.h"
#include "collectives/waiting/work.h"
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
  bool is_message() const noexcept { return row_of(descriptor.op).is_message; }

  // Driver. ---------------------------------------------------------------------------------------
  // Ends the operation; null `error`: success.
  void end(std::exception_ptr error) noexcept { completion_.end(std::move(error)); }

  Descriptor descriptor;
  record::Slot* slot = nullptr;  // in the flight recorder
  std::vector<Handle> requests;  // that have not ended

  Waiting waiting;  // begins when the operation is made

 private:
  Ref<Core> core_;
  Ref<RefCounted> owner_;
  Completion completion_;
};

// Every rank's announcement before a collective: the call, and the payload if it is small.
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

// Sent to each other rank before an operation on parts: the elements that this rank sends to it and
// expects from it.
struct PairCounts {
  std::uint64_t sends;
  std::uint64_t expects;
};

class Collective final : public Operation {
 public:
  Collective(Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout);
  std::string_view algorithm() const noexcept override;

  const std::byte* const input;
  std::byte* const output;
  // Elements of each rank's part, if parts differ: sent to the rank, and received from it.
  std::vector<std::size_t> send_counts, receive_counts;
  const bool has_pairs;  // the counts are compared before data moves

  // Driver.
  enum class Stage : std::uint8_t { kQueued, kAnnounced, kCompared, kMoving, kSharing, kSpreading };
  Stage stage = Stage::kQueued;
  Announcement own{};
  std::vector<Announcement> all;
  std::vector<PairCounts> told, heard;
  std::vector<std::byte> scratch;
  std::size_t reduced = 0;         // elements that are done (of the longest part, if parts differ)
  std::vector<std::size_t> slice;  // elements of each rank's part of the current slice
};

// Sent before a message's data.
struct MessageHeader {
  std::uint64_t number;  // of the sender's messages to this rank
  std::uint64_t count;
  std::uint32_t tag;
  DType dtype;
  std::uint8_t zero[3];
};

// One send or recv.
class Message final : public Operation {
 public:
  Message(Ref<Core> core, const Call& call, std::chrono::nanoseconds time)
      : Operation(std::move(core), call.what, time, call.options->keep_alive),
        peer(call.peer),
        buffer(static_cast<std::byte*>(call.memory())),
        bytes(call.what.count * size_of(call.what.dtype)) {}

  // kAnySource until a matching message arrives.
  int peer;
  std::byte* const buffer;  // a send only reads it
  const std::size_t bytes;
  MessageHeader header{};   // driver; for a send
  bool is_matched = false;  // driver; for a receive
  std::uint32_t tag() const noexcept { return static_cast<std::uint32_t>(descriptor.root); }
  std::optional<int> source() const noexcept override {
    if (descriptor.op != OpKind::kRecv || !is_completed() || error() != nullptr) {
      return std::nullopt;
    }
    return peer;
  }
};

}  // namespace dl::collectives::mpi
