// Operation: a Work of an MPI group.
//
// The caller fills it, the driver of the group's Core runs it, any thread waits for it. Fields
// below "driver" are touched only by the driver.
#pragma once

#include <vector>

#include "collectives/algorithms/plan.h"
#include "collectives/mpi/traffic/traffic.h"
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
  // True if MPI uses its buffers.
  virtual bool has_requests() const noexcept { return !requests.empty(); }

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

// True if the announcement has room for what each rank gives.
inline bool is_inline(const Descriptor& d) noexcept {
  const OpRow& row = row_of(d.op);
  return row.input != Side::kEach && !row.is_v_variant() && d.count <= kInlineBytes &&
         d.count * size_of(d.dtype) <= kInlineBytes;
}

class Collective final : public Operation {
 public:
  Collective(Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout);
  // Makes the schedule, unless the payload is in the announcement. Rank `rank` of `size`.
  void plan(const Call& call, const Choices& choices, int rank, int size, const Requests& requests);

  std::string_view algorithm() const noexcept override {
    return traffic ? name_of(traffic->algorithm()) : "inline";
  }
  bool has_requests() const noexcept override {
    return Operation::has_requests() || (traffic && traffic->has_requests());
  }

  const std::byte* const input;
  std::byte* const output;

  // Driver.
  enum class Stage : std::uint8_t { kAnnounced, kCompared, kMoving };
  Stage stage = Stage::kAnnounced;
  Announcement own{};
  std::vector<Announcement> all;
  std::vector<PairCounts> told, heard;  // of a v-variant
  std::optional<Traffic> traffic;       // nullopt: inline
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
