#include "collectives/shm/layout/ring.h"

#include <algorithm>
#include <utility>

namespace dl::collectives::shm {
namespace {

// Credit is returned in portions, not with every message.
constexpr std::size_t kReleasePortion = kCreditBytes / 8;

// Bytes of a piece that lie before the end of the ring.
std::size_t before_end(std::uint64_t position, std::size_t bytes) noexcept {
  return std::min<std::size_t>(bytes, kRingBytes - position % kRingBytes);
}

}  // namespace

std::size_t RingWriter::room(std::size_t wanted) noexcept {
  const auto now = [&] { return kRingBytes - static_cast<std::size_t>(position_ - consumed_); };
  if (now() < wanted) consumed_ = place_.consumed->load(std::memory_order_acquire);
  return now();
}

bool RingWriter::begin(Frame frame, const std::byte* payload) noexcept {
  if (room(kFrameBytes) < kFrameBytes) return false;
  frame.sequence = ++sequence_;
  std::byte* const at = place_.data + position_ % kRingBytes;
  copy_bytes(at, &frame, sizeof frame);
  position_ += kFrameBytes;
  left_ = frame.bytes;
  if (left_ > kTinyBytes) return true;
  copy_bytes(at + sizeof frame, payload, left_);
  left_ = 0;
  publish();
  return true;
}

std::size_t RingWriter::write(const std::byte* from) noexcept {
  const std::size_t wanted = std::min(left_, kPieceBytes);
  const std::size_t bytes = std::min(wanted, room(whole_lines(wanted)));
  if (bytes == 0) return 0;
  const std::size_t first = before_end(position_, bytes);
  copy_bytes(place_.data + position_ % kRingBytes, from, first);
  copy_bytes(place_.data, from + first, bytes - first);
  left_ -= bytes;
  position_ += whole_lines(bytes);
  publish();
  return bytes;
}

bool RingWriter::may_charge(std::size_t bytes) noexcept {
  const auto fits = [&] { return charged_ + bytes - released_ <= kCreditBytes; };
  if (!fits()) released_ = place_.released->load(std::memory_order_acquire);
  return fits();
}

bool RingReader::next(Frame& frame) noexcept {
  if (position_ == written_) written_ = place_.written->load(std::memory_order_acquire);
  if (position_ == written_) return false;
  const std::byte* const at = place_.data + position_ % kRingBytes;
  copy_bytes(&frame, at, sizeof frame);
  is_in_order_ = frame.sequence == ++sequence_;
  position_ += kFrameBytes;
  left_ = frame.bytes;
  tiny_ = left_ <= kTinyBytes ? at + sizeof frame : nullptr;
  if (left_ == 0) consume();
  return true;
}

std::size_t RingReader::read(std::byte* to) noexcept {
  if (tiny_ != nullptr) {
    copy_bytes(to, tiny_, left_);
    consume();
    return std::exchange(left_, 0);
  }
  if (position_ == written_) written_ = place_.written->load(std::memory_order_acquire);
  const auto there = static_cast<std::size_t>(written_ - position_);
  const std::size_t bytes = std::min({left_, there, kPieceBytes});
  if (bytes == 0) return 0;
  const std::size_t first = before_end(position_, bytes);
  copy_bytes(to, place_.data + position_ % kRingBytes, first);
  copy_bytes(to + first, place_.data, bytes - first);
  left_ -= bytes;
  position_ += whole_lines(bytes);
  consume();
  return bytes;
}

bool RingReader::release(std::size_t bytes) noexcept {
  released_ += bytes;
  if (released_ - told_ < kReleasePortion) return false;
  told_ = released_;
  place_.released->store(told_, std::memory_order_release);
  return true;
}

}  // namespace dl::collectives::shm
