#include "collectives/record/snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "collectives/record/clock.h"

namespace dl::collectives::record {
namespace {

// A slot changes only after kSlots further operations, so one copy is nearly always enough.
constexpr int kCopyTries = 8;

void copy(std::atomic<std::uint64_t>& to, const std::atomic<std::uint64_t>& from) noexcept {
  to.store(from.load(kRelaxed), kRelaxed);
}

void copy_slot(Slot& to, const Slot& from) noexcept {
  for (int tries = 0; tries < kCopyTries; ++tries) {
    const std::uint64_t before = from.word.load(std::memory_order_acquire);
    copy(to.sequence, from.sequence);
    copy(to.count, from.count);
    copy(to.enqueued_at, from.enqueued_at);
    copy(to.started_at, from.started_at);
    copy(to.ended_at, from.ended_at);
    copy(to.kinds, from.kinds);
    copy(to.links, from.links);
    std::atomic_thread_fence(std::memory_order_acquire);
    const std::uint64_t after = from.word.load(kRelaxed);
    to.word.store(before, kRelaxed);
    if (before >> 8 == after >> 8 && static_cast<State>(before & kStateBits) != State::kWriting) {
      return;
    }
    to.word.store((after & ~kStateBits) | static_cast<std::uint64_t>(State::kWriting), kRelaxed);
  }
}

void copy_group(Group& to, const Group& from) noexcept {
  copy(to.word, from.word);
  to.generation = from.generation;
  to.rank = from.rank;
  to.size = from.size;
  std::memcpy(to.backend, from.backend, sizeof to.backend);
  std::memcpy(to.name, from.name, sizeof to.name);
  copy(to.last_called, from.last_called);
  to.broken_at = from.broken_at;
  std::memcpy(to.kind, from.kind, sizeof to.kind);
  std::memcpy(to.cause, from.cause, sizeof to.cause);
}

void copy_header(Header& to, const Header& from) noexcept {
  std::memcpy(static_cast<void*>(&to), &from, offsetof(Header, owner));
  copy(to.owner, from.owner);
  to.clock = from.clock;
  to.opened_at = from.opened_at;
  to.opened_at_ns = from.opened_at_ns;
  copy(to.tickets, from.tickets);
  copy(to.dropped, from.dropped);
  copy(to.dropped_groups, from.dropped_groups);
  std::memcpy(to.ops, from.ops, sizeof to.ops);
  std::memcpy(to.dtypes, from.dtypes, sizeof to.dtypes);
  std::memcpy(to.reduces, from.reduces, sizeof to.reduces);
  std::memcpy(to.algorithms, from.algorithms, sizeof to.algorithms);
}

std::string failed(const std::string& what) {
  return what + ": " + std::strerror(errno);
}

// Replaces control characters: they must not reach a terminal.
template <std::size_t N>
std::string text(const char (&from)[N]) {
  std::string found(from, ::strnlen(from, N));
  for (char& c : found) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return found;
}

std::string name(const NameTable& table, std::uint64_t number, const char* what) {
  std::string found = number < kNames ? text(table[number]) : std::string();
  return found.empty() ? std::string(what) + " " + std::to_string(number) : found;
}

// Converts ticks to seconds before the copy. The two readings of both clocks give a tick's length.
class Timeline {
 public:
  explicit Timeline(const Header& h) noexcept : end_(h.copied_at) {
    const bool sound =
        h.opened_at != 0 && h.copied_at > h.opened_at && h.copied_at_ns > h.opened_at_ns;
    if (!sound) return;
    seconds_ = static_cast<double>(h.copied_at_ns - h.opened_at_ns) * 1e-9 /
               static_cast<double>(h.copied_at - h.opened_at);
    // Ticks of CLOCK_MONOTONIC are nanoseconds, so the real-time clock, which may have been set, is
    // not needed.
    if (static_cast<ClockKind>(h.clock) == ClockKind::kMonotonic) seconds_ = 1e-9;
  }
  std::optional<double> before(std::uint64_t at) const noexcept {
    if (at == 0 || at > end_ || seconds_ == 0) return std::nullopt;
    return static_cast<double>(end_ - at) * seconds_;
  }

 private:
  std::uint64_t end_;
  double seconds_ = 0;
};

GroupFacts read_group(const Group& g, const Timeline& times) {
  const std::uint64_t word = g.word.load(kRelaxed);
  return {.number = word >> 8,
          .state = static_cast<GroupState>(word & kStateBits),
          .generation = g.generation,
          .rank = g.rank,
          .size = g.size,
          .backend = text(g.backend),
          .name = text(g.name),
          .last_called = g.last_called.load(kRelaxed),
          .kind = text(g.kind),
          .cause = text(g.cause),
          .broken = times.before(g.broken_at),
          .broken_at = g.broken_at};
}

Operation read_slot(const Header& h, const Slot& s, const Timeline& times) {
  const std::uint64_t word = s.word.load(kRelaxed);
  const std::uint64_t kinds = s.kinds.load(kRelaxed);
  const std::uint64_t links = s.links.load(kRelaxed);
  const std::uint64_t algorithm = links >> 32 & 0xff;
  const std::uint64_t waits_for = links >> 40;
  Operation o;
  o.ticket = word >> 8;
  o.state = static_cast<State>(word & kStateBits);
  o.group = links >> 16 & 0xffff;
  o.hash = static_cast<std::uint16_t>(links);
  o.waits_for = waits_for == kNoRank ? -1 : static_cast<int>(waits_for);
  if (algorithm != 0) o.algorithm = name(h.algorithms, algorithm, "algorithm");
  o.sequence = s.sequence.load(kRelaxed);
  o.count = s.count.load(kRelaxed);
  o.root = static_cast<std::int32_t>(kinds >> 32);
  o.order = static_cast<std::uint8_t>(kinds >> 24 & (kPointToPoint - 1));
  o.is_message = (kinds >> 24 & kPointToPoint) != 0;
  o.op = name(h.ops, kinds & 0xff, "operation");
  o.dtype = name(h.dtypes, kinds >> 8 & 0xff, "dtype");
  o.reduce = name(h.reduces, kinds >> 16 & 0xff, "reduction");
  o.enqueued = times.before(s.enqueued_at.load(kRelaxed));
  o.started = times.before(s.started_at.load(kRelaxed));
  o.ended = times.before(s.ended_at.load(kRelaxed));
  return o;
}

}  // namespace

std::unique_ptr<Memory> take_snapshot(const Memory& memory) {
  auto taken = std::make_unique<Memory>();
  copy_header(taken->header, memory.header);
  for (std::size_t i = 0; i < kGroups; ++i) copy_group(taken->groups[i], memory.groups[i]);
  for (std::size_t i = 0; i < kSlots; ++i) copy_slot(taken->slots[i], memory.slots[i]);
  taken->header.copied_at = ticks(static_cast<ClockKind>(memory.header.clock));
  taken->header.copied_at_ns = realtime_ns();
  return taken;
}

std::string write_snapshot(const Memory& copy, const std::string& directory, int rank) {
  const std::string folder = directory + "/" + std::to_string(rank);
  for (const std::string& path : {directory, folder}) {
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) return failed("create " + path);
  }
  const std::string path = folder + "/" + std::string(kFileName);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return failed("create " + path);
  const auto* bytes = reinterpret_cast<const char*>(&copy);
  std::size_t left = sizeof copy;
  while (left > 0) {
    const ssize_t written = ::write(fd, bytes, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const std::string why = failed("write " + path);
      ::close(fd);
      return why;
    }
    bytes += written;
    left -= static_cast<std::size_t>(written);
  }
  return ::close(fd) == 0 ? std::string() : failed("write " + path);
}

std::optional<RankFacts> parse(std::span<const std::byte> bytes, std::string& why) {
  // A truncated part reads as empty slots and groups.
  const auto image = std::make_unique<Memory>();
  std::copy_n(bytes.data(), std::min(bytes.size(), kBytes),
              reinterpret_cast<std::byte*>(image.get()));
  const Header& h = image->header;
  if (bytes.size() < offsetof(Header, owner) || std::memcmp(h.magic, kMagic, sizeof kMagic) != 0) {
    why = "it is not a flight recorder";
    return std::nullopt;
  }
  if (h.format != kFormat || h.header_bytes != sizeof(Header) || h.group_count != kGroups ||
      h.group_bytes != sizeof(Group) || h.slot_count != kSlots || h.slot_bytes != sizeof(Slot)) {
    why = "it has format " + std::to_string(h.format) + ", this dlrun reads " +
          std::to_string(kFormat);
    return std::nullopt;
  }
  if (h.rank < 0 || h.world_size < 1 || h.rank >= h.world_size) {
    why = "it says rank " + std::to_string(h.rank) + " of " + std::to_string(h.world_size);
    return std::nullopt;
  }
  const Timeline times(h);
  RankFacts facts;
  facts.rank = h.rank;
  facts.world_size = h.world_size;
  facts.generation = h.generation;
  facts.host = text(h.host);
  facts.job = text(h.job);
  facts.copied_at_ns = h.copied_at_ns;
  facts.end = h.end <= End::kNotStarted ? h.end : End::kUnknown;
  facts.status = h.status;
  const std::uint64_t owner = h.owner.load(kRelaxed);
  facts.pid = owner > 0 && owner < 0x7fffffff ? static_cast<int>(owner) : h.pid;
  facts.fate = text(h.fate);
  facts.was_stopped = h.was_stopped != 0;
  facts.is_cause = h.is_cause != 0;
  facts.process_state =
      std::strchr("RSDTtZXI", h.process_state) != nullptr ? h.process_state : '\0';
  facts.ended = times.before(h.ended_at);
  facts.opened = owner != 0;
  facts.dropped = h.dropped.load(kRelaxed);
  facts.truncated = bytes.size() < kBytes;
  for (const Group& group : image->groups) {
    const auto state = static_cast<GroupState>(group.word.load(kRelaxed) & kStateBits);
    if (state != GroupState::kOpen && state != GroupState::kBroken && state != GroupState::kLeft) {
      continue;
    }
    if (group.size < 1 || group.rank < 0 || group.rank >= group.size) continue;
    facts.groups.push_back(read_group(group, times));
  }
  for (const Slot& slot : image->slots) {
    const auto state = static_cast<State>(slot.word.load(kRelaxed) & kStateBits);
    if (state == State::kWriting) ++facts.torn;
    if (state < State::kEnqueued || state > State::kFailed) continue;
    facts.operations.push_back(read_slot(h, slot, times));
  }
  std::sort(facts.groups.begin(), facts.groups.end(),
            [](const GroupFacts& a, const GroupFacts& b) { return a.number < b.number; });
  std::sort(facts.operations.begin(), facts.operations.end(),
            [](const Operation& a, const Operation& b) { return a.ticket < b.ticket; });
  return facts;
}

}  // namespace dl::collectives::record
