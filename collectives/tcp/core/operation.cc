#include "collectives/tcp/core/operation.h"

#include <algorithm>
#include <cstring>

#include "collectives/call/recording.h"
#include "collectives/process/at_exit.h"
#include "collectives/reduce/reduce.h"
#include "collectives/tcp/core/core.h"
#include "collectives/tcp/core/engine.h"
#include "collectives/waiting/still_running.h"
#include "core/base/error.h"

namespace dl::collectives::tcp {
namespace {

// Several slices a transfer make a pipeline; below this size a slice is not worth its system calls.
constexpr std::size_t kLeastSliceBytes = 32 * 1024;
// After its deadline a rank waits this long for the other ranks' answers, so that it names only
// ranks that are missing.
constexpr std::chrono::milliseconds kAnswerTime{100};

std::size_t slice_bytes(std::size_t transfer_bytes) noexcept {
  const std::size_t quarter = (transfer_bytes / 4 + 4095) / 4096 * 4096;
  return std::clamp(quarter, kLeastSliceBytes, kMostSliceBytes);
}

}  // namespace

Operation::Operation(Ref<Engine> engine, Ref<Core> core, const Call& call,
                     std::chrono::nanoseconds time)
    : PendingWork("tcp", call, time), engine_(std::move(engine)), core_(std::move(core)) {
  waiting.begin(Deadline::Clock::now());
}

Operation::~Operation() = default;

bool Operation::is_completed() const noexcept {
  if (is_over() || core_->is_in_child()) return true;  // no thread drives it in a child
  engine_->poll();
  return is_over();
}

std::exception_ptr Operation::error() const noexcept {
  return is_over() || !core_->is_in_child() ? PendingWork::error() : core_->error();
}

void Operation::synchronize(std::optional<std::chrono::nanoseconds> limit) {
  if (!is_over()) {
    const profiler::Span span = wait_span();
    if (core_->is_in_child()) core_->throw_if_broken();
    const Deadline until = limit ? Deadline::after(*limit) : Deadline::never();
    if (!engine_->help(*this, core_->wait_policy(), until) && !sleep_until(until)) {
      const auto asked = Deadline::Clock::now();
      const Deadline answers = Deadline::after(kAnswerTime);
      engine_->inspect([&] { core_->ask_peers(); });
      bool are_heard = false;
      while (!are_heard && !is_over()) {
        const std::uint64_t known = core_->news();
        engine_->inspect([&] { are_heard = core_->have_answered(asked); });
        if (are_heard || !core_->wait_for_news(known, answers)) break;
      }
      std::string missing;
      engine_->inspect([&] { missing = core_->missing(*this, asked).text; });
      if (!is_over()) {
        stay_if_exiting();
        throw StillRunning(text(descriptor), *limit, missing);
      }
    }
  }
  if (const std::exception_ptr failed = error()) {
    stay_if_exiting();
    std::rethrow_exception(failed);
  }
}

void Operation::end(std::exception_ptr failed) noexcept {
  if (is_over()) return;
  if (failed) {
    core_->recorder().fail(slot);
  } else {
    core_->recorder().finish(slot);
  }
  PendingWork::end(std::move(failed), Deadline::Clock::now());
}

Collective::Collective(Ref<Engine> engine, Ref<Core> core, const Call& call,
                       std::chrono::nanoseconds time, Schedule schedule, int size)
    : Operation(std::move(engine), std::move(core), call, time),
      schedule_(std::move(schedule)),
      input_(static_cast<const std::byte*>(call.input)),
      output_(static_cast<std::byte*>(call.output)),
      scratch_(schedule_.scratch_bytes),
      peers_(static_cast<std::size_t>(size)),
      sending_(schedule_.sends.size()),
      sent_(sending_.size()),
      received_(schedule_.receives.size()),
      send_over_(sent_.size()),
      receive_over_(received_.size()),
      open_(sent_.size() + received_.size()) {
  for (std::uint32_t i = 0; i < schedule_.sends.size(); ++i) {
    peers_[static_cast<std::size_t>(schedule_.sends[i].peer)].sends.push_back(i);
  }
  for (std::uint32_t i = 0; i < schedule_.receives.size(); ++i) {
    peers_[static_cast<std::size_t>(schedule_.receives[i].peer)].receives.push_back(i);
  }
}

const std::byte* Collective::at(Region region, std::size_t offset) const noexcept {
  switch (region) {
    case Region::kInput:
      return input_ + offset;
    case Region::kOutput:
      return output_ + offset;
    case Region::kScratch:
      break;
  }
  return scratch_.data() + offset;
}

std::byte* Collective::destination(const Transfer& transfer) noexcept {
  return (transfer.region == Region::kOutput ? output_ : scratch_.data()) + transfer.offset;
}

const std::byte* Collective::own_operand(const Transfer& transfer) const noexcept {
  return at(transfer.own, transfer.own_offset);
}

bool Collective::is_over(const Transfer& send) const noexcept {
  const auto first = receive_over_.begin() + (send.after_all ? 0 : send.after);
  const auto end = receive_over_.begin() + send.after + 1;
  return std::find(first, end, false) == end;
}

std::size_t Collective::ready(const Transfer& send) const noexcept {
  if (send.after == Transfer::kNothing) return send.bytes;
  if (send.after == Transfer::kCombined) return combined_;
  if (send.after_all) return is_over(send) ? send.bytes : 0;
  const auto after = static_cast<std::size_t>(send.after);
  const std::size_t before = send.offset - schedule_.receives[after].offset;
  return std::min(received_[after] - std::min(received_[after], before), send.bytes);
}

std::optional<Collective::Slice> Collective::next_slice(int peer) const noexcept {
  const Cursor& cursor = peers_[static_cast<std::size_t>(peer)];
  if (cursor.next_send == cursor.sends.size()) return std::nullopt;
  const std::uint32_t index = cursor.sends[cursor.next_send];
  const Transfer& transfer = schedule_.sends[index];
  if (transfer.bytes == 0) {
    if (transfer.after >= 0 && !is_over(transfer)) return std::nullopt;
    return Slice{
        cursor.frames_sending, nullptr, 0, static_cast<std::uint32_t>(cursor.next_send), 0, 0};
  }
  const std::size_t done = sending_[index];
  const std::size_t wanted = std::min(slice_bytes(transfer.bytes), transfer.bytes - done);
  if (ready(transfer) - done < wanted) return std::nullopt;
  return Slice{cursor.frames_sending,
               at(transfer.region, transfer.offset) + done,
               wanted,
               static_cast<std::uint32_t>(cursor.next_send),
               done,
               transfer.bytes};
}

void Collective::sending(int peer, std::size_t bytes) noexcept {
  Cursor& cursor = peers_[static_cast<std::size_t>(peer)];
  const std::uint32_t index = cursor.sends[cursor.next_send];
  sending_[index] += bytes;
  ++cursor.frames_sending;
  if (sending_[index] == schedule_.sends[index].bytes) ++cursor.next_send;
}

void Collective::sent(int peer, std::size_t bytes) noexcept {
  Cursor& cursor = peers_[static_cast<std::size_t>(peer)];
  const std::uint32_t index = cursor.sends[cursor.next_sent];
  sent_[index] += bytes;
  if (sent_[index] == schedule_.sends[index].bytes) {
    send_over_[index] = true;
    ++cursor.next_sent;
    --open_;
  }
}

const Transfer* Collective::expected(int peer) const noexcept {
  const Cursor& cursor = peers_[static_cast<std::size_t>(peer)];
  if (cursor.next_receive == cursor.receives.size()) return nullptr;
  return &schedule_.receives[cursor.receives[cursor.next_receive]];
}

std::uint32_t Collective::expected_index(int peer) const noexcept {
  return static_cast<std::uint32_t>(peers_[static_cast<std::size_t>(peer)].next_receive);
}

std::size_t Collective::received(int peer) const noexcept {
  const Cursor& cursor = peers_[static_cast<std::size_t>(peer)];
  return received_[cursor.receives[cursor.next_receive]];
}

bool Collective::may_receive(int peer, std::size_t bytes) const noexcept {
  const Transfer& transfer = *expected(peer);
  if (transfer.own_from >= 0) {
    const auto from = static_cast<std::size_t>(transfer.own_from);
    const std::size_t before = transfer.own_offset - schedule_.receives[from].offset;
    if (received_[from] < before + received(peer) + bytes) return false;
  }
  if (transfer.after < 0) return true;
  const auto overwritten = static_cast<std::size_t>(transfer.after);
  return send_over_[overwritten] || (bytes > 0 && sent_[overwritten] >= received(peer) + bytes);
}

void Collective::applied(int peer, std::size_t bytes) noexcept {
  const Cursor& cursor = peers_[static_cast<std::size_t>(peer)];
  received_[cursor.receives[cursor.next_receive]] += bytes;
}

void Collective::finish_frame(int peer) noexcept {
  Cursor& cursor = peers_[static_cast<std::size_t>(peer)];
  ++cursor.frames_received;
  const std::uint32_t index = cursor.receives[cursor.next_receive];
  if (received_[index] != schedule_.receives[index].bytes) return;
  receive_over_[index] = true;
  ++cursor.next_receive;
  --open_;
}

bool Collective::combine_ready() {
  if (!schedule_.combine || combined_ == schedule_.combine->bytes) return false;
  const Combine& c = *schedule_.combine;
  std::size_t ready = c.bytes;
  for (const int i : c.receives) {
    if (i >= 0) ready = std::min(ready, received_[static_cast<std::size_t>(i)]);
  }
  for (const int i : c.overwrites) ready = std::min(ready, sent_[static_cast<std::size_t>(i)]);
  const std::size_t element = size_of(descriptor.dtype);
  ready -= ready % element;
  const std::size_t bytes = std::min(ready - combined_, kMostSliceBytes);
  if (bytes == 0 || (bytes < kLeastSliceBytes && ready != c.bytes)) return false;
  std::vector<const void*> shares;
  shares.reserve(c.receives.size());
  for (const int i : c.receives) {
    shares.push_back(
        (i < 0 ? input_ + c.input_offset
               : scratch_.data() + schedule_.receives[static_cast<std::size_t>(i)].offset) +
        combined_);
  }
  std::byte* to = (c.region == Region::kOutput ? output_ : scratch_.data()) + c.offset + combined_;
  combine(descriptor.dtype, descriptor.reduce, to, shares, bytes / element, descriptor.order);
  combined_ += bytes;
  return true;
}

bool Collective::needs(int peer) const noexcept {
  const Cursor& cursor = peers_[static_cast<std::size_t>(peer)];
  return cursor.next_sent < cursor.sends.size() || cursor.next_receive < cursor.receives.size();
}

bool Collective::is_finished() const noexcept {
  return open_ == 0 && (!schedule_.combine || combined_ == schedule_.combine->bytes);
}

}  // namespace dl::collectives::tcp
