#include "collectives/algorithms/execution/execution.h"

#include <algorithm>
#include <utility>

#include "collectives/reduce/reduce.h"

namespace dl::collectives {
namespace {

// Bytes that are reduced at a time.
constexpr std::size_t kLeastCombined = 32 * 1024;
constexpr std::size_t kMostCombined = 256 * 1024;

}  // namespace

Execution::Execution(const Call& call, Schedule schedule, int size, SliceSizes slices)
    : schedule_(std::move(schedule)),
      slices_(slices),
      dtype_(call.what.dtype),
      reduce_(call.what.reduce),
      order_(call.what.order),
      input_(static_cast<const std::byte*>(call.input)),
      output_(static_cast<std::byte*>(call.output)),
      scratch_(std::make_unique_for_overwrite<std::byte[]>(schedule_.scratch_bytes)),
      peers_(static_cast<std::size_t>(size)),
      sends_(schedule_.sends.size()),
      receives_(schedule_.receives.size()),
      open_(sends_.size() + receives_.size()) {
  // From the last one, so that each peer's list is in the schedule's order.
  for (std::size_t i = sends_.size(); i-- > 0;) {
    std::uint32_t& first = cursor(schedule_.sends[i].peer).next_send;
    sends_[i].next = std::exchange(first, static_cast<std::uint32_t>(i));
  }
  for (std::size_t i = receives_.size(); i-- > 0;) {
    std::uint32_t& first = cursor(schedule_.receives[i].peer).next_receive;
    receives_[i].next = std::exchange(first, static_cast<std::uint32_t>(i));
  }
  for (Cursor& peer : peers_) {
    peer.ending_send = peer.next_send;
    peer.ending_receive = peer.next_receive;
  }
}

std::size_t Execution::slice_bytes(std::size_t transfer_bytes) const noexcept {
  if (transfer_bytes <= 4 * slices_.small) return slices_.small;
  const std::size_t quarter = (transfer_bytes / 4 + 4095) / 4096 * 4096;
  return std::clamp(quarter, slices_.least, slices_.most);
}

const std::byte* Execution::at(Region region, std::size_t offset) const noexcept {
  switch (region) {
    case Region::kInput:
      return input_ + offset;
    case Region::kOutput:
      return output_ + offset;
    case Region::kScratch:
      break;
  }
  return scratch_.get() + offset;
}

std::byte* Execution::written_at(Region region, std::size_t offset) noexcept {
  return (region == Region::kOutput ? output_ : scratch_.get()) + offset;
}

bool Execution::are_over_before(const Transfer& send) const noexcept {
  const auto end = receives_.begin() + send.after + 1;
  return std::all_of(send.after_all ? receives_.begin() : end - 1, end,
                     [](const Progress& p) { return p.is_over; });
}

std::size_t Execution::ready(const Transfer& send) const noexcept {
  if (send.after == Transfer::kNothing) return send.bytes;
  if (send.after == Transfer::kCombined) return combined_;
  if (send.after_all) return are_over_before(send) ? send.bytes : 0;
  const auto after = static_cast<std::size_t>(send.after);
  const std::size_t before = send.offset - schedule_.receives[after].offset;
  const std::size_t stored = receives_[after].done;
  return std::min(stored - std::min(stored, before), send.bytes);
}

std::optional<Execution::Slice> Execution::next_send(int peer) const noexcept {
  const Cursor& to = cursor(peer);
  if (to.next_send == kEnd) return std::nullopt;
  const Transfer& transfer = schedule_.sends[to.next_send];
  if (transfer.bytes == 0) {
    if (transfer.after >= 0 && !are_over_before(transfer)) return std::nullopt;
    return Slice{to.slices_begun, nullptr, 0, to.sends_begun, 0, 0};
  }
  const std::size_t begun = sends_[to.next_send].begun;
  const std::size_t wanted = std::min(slice_bytes(transfer.bytes), transfer.bytes - begun);
  if (ready(transfer) - begun < wanted) return std::nullopt;
  return Slice{to.slices_begun, at(transfer.region, transfer.offset) + begun,
               wanted,          to.sends_begun,
               begun,           transfer.bytes};
}

void Execution::begin_send(int peer, std::size_t bytes) noexcept {
  Cursor& to = cursor(peer);
  Progress& send = sends_[to.next_send];
  send.begun += bytes;
  ++to.slices_begun;
  if (send.begun < schedule_.sends[to.next_send].bytes) return;
  to.next_send = send.next;
  ++to.sends_begun;
}

void Execution::end_send(int peer, std::size_t bytes) noexcept {
  Cursor& to = cursor(peer);
  Progress& send = sends_[to.ending_send];
  send.done += bytes;
  if (send.done < schedule_.sends[to.ending_send].bytes) return;
  send.is_over = true;
  to.ending_send = send.next;
  --open_;
}

std::optional<Execution::Expected> Execution::expected(int peer) const noexcept {
  const Cursor& from = cursor(peer);
  if (from.next_receive == kEnd) return std::nullopt;
  return Expected{from.receives_begun, receives_[from.next_receive].begun,
                  schedule_.receives[from.next_receive].bytes};
}

bool Execution::may_receive(int peer, std::size_t bytes) const noexcept {
  const std::uint32_t index = cursor(peer).next_receive;
  const Transfer& transfer = schedule_.receives[index];
  const std::size_t end = receives_[index].begun + bytes;
  if (transfer.own_from >= 0) {
    const auto from = static_cast<std::size_t>(transfer.own_from);
    const std::size_t before = transfer.own_offset - schedule_.receives[from].offset;
    if (receives_[from].done < before + end) return false;
  }
  if (transfer.after < 0) return true;
  const Progress& overwritten = sends_[static_cast<std::size_t>(transfer.after)];
  return overwritten.is_over || (bytes > 0 && overwritten.done >= end);
}

std::optional<Execution::Place> Execution::next_receive(int peer) noexcept {
  const std::uint32_t index = cursor(peer).next_receive;
  if (index == kEnd) return std::nullopt;
  const Transfer& transfer = schedule_.receives[index];
  const std::size_t begun = receives_[index].begun;
  const std::size_t bytes = std::min(slice_bytes(transfer.bytes), transfer.bytes - begun);
  if (!may_receive(peer, bytes)) return std::nullopt;
  if (transfer.apply != Apply::kStore) return Place{nullptr, bytes};
  return Place{written_at(transfer.region, transfer.offset) + begun, bytes};
}

void Execution::begin_receive(int peer, std::size_t bytes) noexcept {
  Cursor& from = cursor(peer);
  Progress& receive = receives_[from.next_receive];
  receive.begun += bytes;
  if (receive.begun < schedule_.receives[from.next_receive].bytes) return;
  from.next_receive = receive.next;
  ++from.receives_begun;
}

std::byte* Execution::place(int peer) noexcept {
  const std::uint32_t index = cursor(peer).ending_receive;
  const Transfer& transfer = schedule_.receives[index];
  if (transfer.apply != Apply::kStore) return nullptr;
  return written_at(transfer.region, transfer.offset) + receives_[index].done;
}

void Execution::apply(int peer, const std::byte* from, std::size_t bytes) {
  const std::uint32_t index = cursor(peer).ending_receive;
  const Transfer& transfer = schedule_.receives[index];
  const std::size_t done = std::exchange(receives_[index].done, receives_[index].done + bytes);
  if (transfer.apply == Apply::kStore) return;
  const std::size_t elements = bytes / size_of(dtype_);
  std::byte* const to = written_at(transfer.region, transfer.offset) + done;
  const std::byte* const own = at(transfer.own, transfer.own_offset) + done;
  reduce(dtype_, reduce_, to, transfer.own_first ? own : from, transfer.own_first ? from : own,
         elements);
  if (transfer.apply == Apply::kReduceLast) {
    finish(dtype_, reduce_, to, elements, static_cast<int>(peers_.size()));
  }
}

void Execution::end_receive(int peer) noexcept {
  Cursor& from = cursor(peer);
  Progress& receive = receives_[from.ending_receive];
  ++from.slices_received;
  if (receive.done < schedule_.receives[from.ending_receive].bytes) return;
  receive.is_over = true;
  from.ending_receive = receive.next;
  --open_;
}

bool Execution::combine_ready() {
  if (combined_ == combined_at_end()) return false;
  const Combine& c = *schedule_.combine;
  std::size_t ready = c.bytes;
  for (const int i : c.receives) {
    if (i >= 0) ready = std::min(ready, receives_[static_cast<std::size_t>(i)].done);
  }
  for (const int i : c.overwrites) {
    ready = std::min(ready, sends_[static_cast<std::size_t>(i)].done);
  }
  const std::size_t element = size_of(dtype_);
  ready -= ready % element;
  const std::size_t bytes = std::min(ready - combined_, kMostCombined);
  if (bytes == 0 || (bytes < kLeastCombined && ready != c.bytes)) return false;
  std::vector<const void*> shares;
  shares.reserve(c.receives.size());
  for (const int i : c.receives) {
    const std::byte* const share =
        i < 0 ? input_ + c.input_offset
              : scratch_.get() + schedule_.receives[static_cast<std::size_t>(i)].offset;
    shares.push_back(share + combined_);
  }
  combine(dtype_, reduce_, written_at(c.region, c.offset) + combined_, shares, bytes / element,
          order_);
  combined_ += bytes;
  return true;
}

}  // namespace dl::collectives
