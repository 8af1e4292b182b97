// Operation: a Work of an MPI group.
//
// The caller fills it, the driver of the group's Core runs it, any thread waits for it. Fields
// below "driver" are touched only by the driver.
#pragma once

#include <vector>

#include "collectives/mpi/module/module.h"
#include "collectives/waiting/pending/pending_work.h"

namespace dl::collectives::mpi {

class Core;

class Operation : public PendingWork {
 public:
  // The wait begins now.
  Operation(Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout);
  ~Operation() override;

  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override { return is_over(); }
  // It holds the group's Core, which the driver uses.
  bool has_owner() const noexcept override { return true; }
  bool is_message() const noexcept { return row_of(descriptor.op).is_message; }

  // Driver. ---------------------------------------------------------------------------------------
  std::vector<Handle> requests;  // that have not ended

 private:
  Ref<Core> core_;
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
class Message final : public MessageOf<Operation> {
 public:
  using MessageOf::MessageOf;

  MessageHeader header{};   // driver; for a send
  bool is_matched = false;  // driver; for a receive
};

}  // namespace dl::collectives::mpi
