// Operation: a Work of a TCP group; the common part of collectives and messages.
//
// The caller fills it, the engine's driver runs it, any thread waits for it. Fields below "driver"
// are touched only by the thread that drives the engine (engine.h).
#pragma once

#include "collectives/algorithms/schedule.h"
#include "collectives/waiting/pending/pending_work.h"

namespace dl::collectives::tcp {

class Core;
class Engine;

class Operation : public PendingWork {
 public:
  // The wait begins now.
  Operation(Ref<Engine> engine, Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout);
  ~Operation() override;

  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override;
  std::exception_ptr error() const noexcept override;

  // Driver: ends the operation; null `error`: success. Only the first call counts.
  void end(std::exception_ptr error) noexcept;

 private:
  Ref<Engine> engine_;
  Ref<Core> core_;
};

// A collective under way: a schedule, its buffers, and the progress of each transfer.
class Collective final : public Operation {
 public:
  Collective(Ref<Engine> engine, Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout,
             Schedule schedule, int size);

  std::string_view algorithm() const noexcept override { return name_of(schedule_.algorithm); }

  // All of it is the driver's. next_slice(): the next slice that may be sent to this peer.
  // sending(): it is being sent. sent(): the oldest one being sent has left.
  struct Slice {
    std::size_t frame;  // index among the frames to this peer
    const std::byte* data;
    std::size_t bytes;
    std::uint32_t transfer;
    std::size_t offset;
    std::size_t whole;  // bytes of the transfer
  };
  std::optional<Slice> next_slice(int peer) const noexcept;
  void sending(int peer, std::size_t bytes) noexcept;
  void sent(int peer, std::size_t bytes) noexcept;

  // The next receive from this peer; null if none is left.
  const Transfer* expected(int peer) const noexcept;
  std::uint32_t expected_index(int peer) const noexcept;
  std::size_t received(int peer) const noexcept;
  // False while the bytes that it would overwrite are unsent, or this rank's own operand is not
  // ready.
  bool may_receive(int peer, std::size_t bytes) const noexcept;
  std::byte* destination(const Transfer& transfer) noexcept;
  const std::byte* own_operand(const Transfer& transfer) const noexcept;
  void applied(int peer, std::size_t bytes) noexcept;
  // A frame has been applied completely; it may be the last one of its transfer.
  void finish_frame(int peer) noexcept;
  std::size_t frames_received(int peer) const noexcept {
    return peers_[static_cast<std::size_t>(peer)].frames_received;
  }

  // Reduces operands that have arrived from all peers; true if it reduced any.
  bool combine_ready();

  bool needs(int peer) const noexcept;
  bool is_finished() const noexcept;

 private:
  struct Cursor {
    std::vector<std::uint32_t> sends, receives;  // indices into the schedule
    std::size_t next_send = 0, next_sent = 0, next_receive = 0;
    std::size_t frames_sending = 0, frames_received = 0;
  };
  const std::byte* at(Region region, std::size_t offset) const noexcept;

  // True if the transfer that this send has to wait for is over.
  bool is_over(const Transfer& send) const noexcept;
  // Bytes of a send that are ready to be sent.
  std::size_t ready(const Transfer& send) const noexcept;

  Schedule schedule_;
  const std::byte* input_;
  std::byte* output_;
  std::vector<std::byte> scratch_;
  std::vector<Cursor> peers_;
  std::vector<std::size_t> sending_, sent_, received_;
  std::vector<bool> send_over_, receive_over_;
  std::size_t combined_ = 0;
  std::size_t open_ = 0;  // unfinished transfers
};

// One send or recv.
class Message final : public MessageOf<Operation> {
 public:
  using MessageOf::MessageOf;
};

}  // namespace dl::collectives::tcp
