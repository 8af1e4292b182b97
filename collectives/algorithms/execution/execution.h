// Execution: the progress of one rank through a schedule.
//
// It knows no sockets and no MPI. A backend asks for the next slice to send or to receive, moves
// its bytes, and tells what has moved. The Execution keeps the dependencies between transfers,
// reduces what has arrived, and knows when all is over. Slices of one peer and direction move in
// order. The backend may begin several slices before the first one is over.
//
// To send, call next_send(), start to send its data, and call begin_send(). Call end_send() when
// bytes of the oldest slice have left. To receive, call next_receive(), or expected() and
// may_receive() if frames tell their length. Start to receive into the slice's memory or the
// backend's own, and call begin_receive(). Call apply() for arrived bytes of the oldest slice, and
// end_receive() when all are applied. After apply() and end_send(), call combine_ready() until it
// returns false.
//
// Owns the schedule and its scratch memory; input and output are the caller's. Not thread-safe:
// used by the driver of the backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/algorithms/schedule.h"
#include "collectives/call/call.h"

namespace dl::collectives {

// A transfer is cut into slices, so that it forms a pipeline. A slice below `least` costs more in
// calls than it saves. Equal on all ranks. The defaults are for TCP.
struct SliceSizes {
  std::size_t least = 32 * 1024;
  std::size_t most = 256 * 1024;
  // Transfers of up to four times this size go in slices of this size. 0: this rule is off.
  std::size_t small = 0;
};

class Execution {
 public:
  // Takes buffers, dtype and kind of reduction from the call; `size`: the number of ranks.
  Execution(const Call& call, Schedule schedule, int size, SliceSizes slices = {});

  Algorithm algorithm() const noexcept { return schedule_.algorithm; }

  struct Slice {
    std::size_t frame;  // index among the slices to this peer
    const std::byte* data;
    std::size_t bytes;       // zero: a header alone
    std::uint32_t transfer;  // index among the transfers to this peer
    std::size_t offset;      // of the slice in the transfer
    std::size_t whole;       // bytes of the transfer
  };
  // nullopt: all slices to this peer have begun, or the next one's bytes are not there yet.
  std::optional<Slice> next_send(int peer) const noexcept;
  void begin_send(int peer, std::size_t bytes) noexcept;
  void end_send(int peer, std::size_t bytes) noexcept;

  // The transfer whose bytes arrive next from this peer.
  struct Expected {
    std::uint32_t transfer;  // index among the transfers from this peer
    std::size_t offset;      // bytes of it that have begun to arrive
    std::size_t whole;
  };
  // nullopt: no more is to come.
  std::optional<Expected> expected(int peer) const noexcept;
  // False as long as the next bytes of expected() would overwrite what is unsent, or as long as
  // this rank's own operand is not ready.
  bool may_receive(int peer, std::size_t bytes) const noexcept;
  struct Place {
    std::byte* to;  // null: into memory of the backend, because the bytes are reduced
    std::size_t bytes;
  };
  // The next slice that the peer sends, for a backend that does not send its length beforehand.
  // nullopt: it must not come now, or there is none left.
  std::optional<Place> next_receive(int peer) noexcept;
  void begin_receive(int peer, std::size_t bytes) noexcept;
  // Memory for the next bytes of the oldest slice; null: they are reduced.
  std::byte* place(int peer) noexcept;
  // Whole elements have arrived: at place(), or at `from` if they are reduced.
  void apply(int peer, const std::byte* from, std::size_t bytes);
  void end_receive(int peer) noexcept;
  std::size_t slices_received(int peer) const noexcept { return cursor(peer).slices_received; }

  // Reduces the bytes whose shares have arrived from all ranks; true if there were any.
  bool combine_ready();

  // True if data is still to come from this peer or to go to it.
  bool needs(int peer) const noexcept {
    return cursor(peer).ending_send != kEnd || cursor(peer).ending_receive != kEnd;
  }
  bool is_finished() const noexcept { return open_ == 0 && combined_ == combined_at_end(); }

 private:
  static constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

  struct Progress {
    std::size_t begun = 0;  // bytes
    std::size_t done = 0;
    std::uint32_t next = kEnd;  // the next transfer of the same peer and direction
    bool is_over = false;
  };
  // Indices of the transfers of one peer.
  struct Cursor {
    std::uint32_t next_send = kEnd, ending_send = kEnd;
    std::uint32_t next_receive = kEnd, ending_receive = kEnd;
    std::uint32_t sends_begun = 0, receives_begun = 0;  // transfers
    std::size_t slices_begun = 0, slices_received = 0;
  };

  Cursor& cursor(int peer) noexcept { return peers_[static_cast<std::size_t>(peer)]; }
  const Cursor& cursor(int peer) const noexcept { return peers_[static_cast<std::size_t>(peer)]; }
  const std::byte* at(Region region, std::size_t offset) const noexcept;
  std::byte* written_at(Region region, std::size_t offset) noexcept;
  std::size_t combined_at_end() const noexcept {
    return schedule_.combine ? schedule_.combine->bytes : 0;
  }
  // True if the receives that this send has to wait for are over.
  bool are_over_before(const Transfer& send) const noexcept;
  std::size_t slice_bytes(std::size_t transfer_bytes) const noexcept;
  std::size_t ready(const Transfer& send) const noexcept;

  const Schedule schedule_;
  const SliceSizes slices_;
  const DType dtype_;
  const ReduceOp reduce_;
  const Order order_;
  const std::byte* const input_;
  std::byte* const output_;
  const std::unique_ptr<std::byte[]> scratch_;
  std::vector<Cursor> peers_;
  std::vector<Progress> sends_, receives_;
  std::size_t combined_ = 0;
  std::size_t open_;  // unfinished transfers
};

}  // namespace dl::collectives
