#include "collectives/record/recorder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "collectives/record/snapshot.h"

namespace dl::collectives::record {
namespace {

// Slots of unfinished operations are skipped, at most this many.
constexpr int kSlotTries = 32;

constinit std::atomic<Observer> observer_of_ends{nullptr};

void copy_text(std::span<char> to, std::string_view text) noexcept {
  const std::size_t bytes = text.copy(to.data(), to.size() - 1);
  std::memset(to.data() + bytes, 0, to.size() - bytes);
}

void copy_names(NameTable& to, std::span<const std::string_view> names) noexcept {
  for (std::size_t i = 0; i < std::min(names.size(), kNames); ++i) copy_text(to[i], names[i]);
}

bool is_ours(const Header& header) noexcept {
  return std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 && header.format == kFormat &&
         header.header_bytes == sizeof(Header) && header.group_bytes == sizeof(Group) &&
         header.group_count == kGroups && header.slot_bytes == sizeof(Slot) &&
         header.slot_count == kSlots;
}

std::uint64_t links(std::uint64_t waits_for, std::uint64_t algorithm, std::uint64_t group,
                    std::uint64_t hash) noexcept {
  return waits_for << 40 | algorithm << 32 | (group & 0xffff) << 16 | hash;
}

std::uint64_t rank_bits(std::int32_t rank) noexcept {
  return rank < 0 ? kNoRank : std::min<std::uint64_t>(static_cast<std::uint64_t>(rank), kNoRank);
}

}  // namespace

void observe_ends(Observer observer) noexcept {
  observer_of_ends.store(observer, kRelaxed);
}

void describe(Header& header, const Who& who) noexcept {
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.format = kFormat;
  header.header_bytes = sizeof(Header);
  header.group_count = kGroups;
  header.group_bytes = sizeof(Group);
  header.slot_count = kSlots;
  header.slot_bytes = sizeof(Slot);
  header.rank = who.rank;
  header.world_size = who.world_size;
  header.generation = who.generation;
  copy_text(header.host, who.host);
  copy_text(header.job, who.job);
}

std::shared_ptr<Recorder> Recorder::open(int fd, const Names& names, std::string& why) {
  struct stat file{};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd, &file) != 0 ||
      static_cast<std::size_t>(file.st_size) != kBytes) {
    why = "descriptor " + std::to_string(fd) +
          " is not a recorder; the program that has started this process may have closed it, as "
          "Python's subprocess does";
    return nullptr;
  }
  // Reserve the memory now, so that a lack of it is an error here and not a SIGBUS in an operation.
  if (::fallocate(fd, 0, 0, static_cast<off_t>(kBytes)) != 0) {
    why = std::string("no memory for it: ") + std::strerror(errno);
    return nullptr;
  }
  void* const at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    why = std::string("mmap: ") + std::strerror(errno);
    return nullptr;
  }
  auto* const memory = static_cast<Memory*>(at);
  const bool known = is_ours(memory->header);
  if (!known) why = "its format differs; are dlrun and the program of the same version?";
  if (!known || !take_over(*memory, why)) {
    ::munmap(at, kBytes);
    return nullptr;
  }
  if (memory->header.opened_at == 0) prepare(*memory, names);
  return std::shared_ptr<Recorder>(new Recorder(memory, {}));
}

std::shared_ptr<Recorder> Recorder::make(const Who& who, const Names& names, File file) {
  void* const at =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* const memory = static_cast<Memory*>(at);
  describe(memory->header, who);
  memory->header.pid = ::getpid();
  memory->header.owner.store(static_cast<std::uint64_t>(::getpid()), kRelaxed);
  prepare(*memory, names);
  return std::shared_ptr<Recorder>(new Recorder(memory, std::move(file)));
}

// One process writes at a time: the first one, or its successor as in `sh -c "a; b"`. If this
// process had opened the recorder before, for a group that is destroyed, its records are kept.
bool Recorder::take_over(Memory& memory, std::string& why) {
  Header& header = memory.header;
  const auto self = static_cast<std::uint64_t>(::getpid());
  std::uint64_t owner = 0;
  if (header.owner.compare_exchange_strong(owner, self) || owner == self) return true;
  if (::kill(static_cast<pid_t>(owner), 0) == 0 || errno != ESRCH ||
      !header.owner.compare_exchange_strong(owner, self)) {
    why = "process " + std::to_string(owner) + " of the same rank writes it";
    return false;
  }
  header.opened_at = 0;
  std::memset(static_cast<void*>(memory.groups), 0, sizeof memory.groups);
  std::memset(static_cast<void*>(memory.slots), 0, sizeof memory.slots);
  return true;
}

void Recorder::prepare(Memory& memory, const Names& names) noexcept {
  Header& header = memory.header;
  copy_names(header.ops, names.ops);
  copy_names(header.dtypes, names.dtypes);
  copy_names(header.reduces, names.reduces);
  const ClockKind clock = best_clock();
  header.clock = static_cast<std::uint64_t>(clock);
  header.opened_at_ns = realtime_ns();
  header.opened_at = ticks(clock);
}

Recorder::Recorder(Memory* memory, File file) noexcept
    : memory_(memory),
      clock_(static_cast<ClockKind>(memory->header.clock)),
      file_(std::move(file)) {
  for (const Group& group : memory->groups) {
    next_group_ = std::max(next_group_, (group.word.load(kRelaxed) >> 8) + 1);
  }
}

Recorder::~Recorder() {
  ::munmap(memory_, kBytes);
}

GroupRecorder Recorder::add_group(const GroupOptions& options) {
  const Lock lock(mutex_);
  // Takes a free place, else the place of the group that left first.
  Group* place = nullptr;
  for (Group& group : memory_->groups) {
    const std::uint64_t word = group.word.load(kRelaxed);
    const auto state = static_cast<GroupState>(word & kStateBits);
    if (state != GroupState::kFree && state != GroupState::kLeft) continue;
    if (place == nullptr || word >> 8 < place->word.load(kRelaxed) >> 8) place = &group;
  }
  GroupRecorder made;
  if (place == nullptr) {
    memory_->header.dropped_groups.fetch_add(1, kRelaxed);
    return made;
  }
  const std::uint64_t number = next_group_++;
  place->word.store(number << 8 | static_cast<std::uint64_t>(GroupState::kWriting), kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  place->generation = options.generation;
  place->rank = options.rank;
  place->size = options.size;
  copy_text(place->backend, options.backend);
  copy_text(place->name, options.name);
  place->last_called.store(0, kRelaxed);
  place->broken_at = 0;
  copy_text(place->kind, {});
  copy_text(place->cause, {});
  place->word.store(number << 8 | static_cast<std::uint64_t>(GroupState::kOpen),
                    std::memory_order_release);
  made.recorder_ = shared_from_this();
  made.group_ = place;
  made.number_ = number;
  return made;
}

std::uint8_t Recorder::algorithm(std::string_view name) {
  const Lock lock(mutex_);
  NameTable& table = memory_->header.algorithms;
  for (std::size_t i = 1; i < kNames; ++i) {
    const std::string_view there(table[i], ::strnlen(table[i], kNameBytes));
    if (there.empty()) copy_text(table[i], name);
    if (there.empty() || there == name.substr(0, kNameBytes - 1))
      return static_cast<std::uint8_t>(i);
  }
  return 0;
}

void Recorder::write_file() noexcept {
  if (file_.directory.empty() || std::exchange(is_written_, true)) return;
  try {
    const std::string why =
        write_snapshot(*take_snapshot(*memory_), file_.directory, memory_->header.rank);
    if (!why.empty() && file_.failed != nullptr) file_.failed(why);
  } catch (...) {
    // Out of memory: only the file is missing. The group's error is reported in any case.
  }
}

GroupRecorder& GroupRecorder::operator=(GroupRecorder&& other) noexcept {
  std::swap(recorder_, other.recorder_);
  std::swap(group_, other.group_);
  std::swap(number_, other.number_);
  return *this;
}

GroupRecorder::~GroupRecorder() {
  if (!recorder_) return;
  // The cause of a broken group stays readable until another group needs the place.
  const Lock lock(recorder_->mutex_);
  group_->word.store(number_ << 8 | static_cast<std::uint64_t>(GroupState::kLeft),
                     std::memory_order_release);
}

Slot* GroupRecorder::take(const What& what, State state, std::uint8_t algorithm) noexcept {
  if (!recorder_) return nullptr;
  Memory& memory = *recorder_->memory_;
  if (!what.is_message) group_->last_called.store(what.sequence, kRelaxed);
  for (int tries = 0; tries < kSlotTries; ++tries) {
    const std::uint64_t ticket = memory.header.tickets.fetch_add(1, kRelaxed) + 1;
    Slot& slot = memory.slots[ticket % kSlots];
    std::uint64_t seen = slot.word.load(kRelaxed);
    const auto was = static_cast<State>(seen & kStateBits);
    const bool is_free = was == State::kEmpty || was == State::kFinished || was == State::kFailed;
    // Fails if a thread with a ticket of another round has taken the slot.
    if (!is_free || !slot.word.compare_exchange_strong(
                        seen, ticket << 8 | static_cast<std::uint64_t>(State::kWriting),
                        std::memory_order_acquire, kRelaxed)) {
      continue;
    }
    // A reader that sees any of the following stores also sees that the slot is being written.
    std::atomic_thread_fence(std::memory_order_release);
    const std::uint64_t now = ticks(recorder_->clock_);
    slot.sequence.store(what.sequence, kRelaxed);
    slot.count.store(what.count, kRelaxed);
    slot.enqueued_at.store(now, kRelaxed);
    slot.started_at.store(state == State::kStarted ? now : 0, kRelaxed);
    slot.ended_at.store(0, kRelaxed);
    slot.kinds.store(std::uint64_t{static_cast<std::uint32_t>(what.root)} << 32 |
                         std::uint64_t(what.order | (what.is_message ? kPointToPoint : 0)) << 24 |
                         std::uint64_t{what.reduce} << 16 | std::uint64_t{what.dtype} << 8 |
                         std::uint64_t{what.op},
                     kRelaxed);
    slot.links.store(links(rank_bits(what.peer), algorithm, number_, what.hash), kRelaxed);
    slot.word.store(ticket << 8 | static_cast<std::uint64_t>(state), std::memory_order_release);
    return &slot;
  }
  memory.header.dropped.fetch_add(1, kRelaxed);
  return nullptr;
}

void GroupRecorder::start(Slot* slot, std::uint8_t algorithm) noexcept {
  if (slot == nullptr) return;
  slot->started_at.store(ticks(recorder_->clock_), kRelaxed);
  if (algorithm != 0) {
    slot->links.store(slot->links.load(kRelaxed) | std::uint64_t{algorithm} << 32, kRelaxed);
  }
  slot->word.store(
      (slot->word.load(kRelaxed) & ~kStateBits) | static_cast<std::uint64_t>(State::kStarted),
      std::memory_order_release);
}

void GroupRecorder::wait_for(Slot* slot, int rank) noexcept {
  if (slot == nullptr) return;
  constexpr std::uint64_t kRest = (std::uint64_t{1} << 40) - 1;
  slot->links.store((slot->links.load(kRelaxed) & kRest) | rank_bits(rank) << 40, kRelaxed);
}

void GroupRecorder::end(Slot* slot, State state, std::uint64_t at) noexcept {
  if (slot == nullptr) return;
  if (const Observer observer = observer_of_ends.load(kRelaxed)) {
    observer(recorder_->memory_->header, *group_, *slot, at);
  }
  slot->ended_at.store(at, kRelaxed);
  slot->word.store((slot->word.load(kRelaxed) & ~kStateBits) | static_cast<std::uint64_t>(state),
                   std::memory_order_release);
}

void GroupRecorder::broken(std::string_view kind, std::string_view cause) noexcept {
  if (!recorder_) return;
  const Lock lock(recorder_->mutex_);
  if (group_->broken_at != 0) return;
  group_->broken_at = ticks(recorder_->clock_);
  copy_text(group_->kind, kind);
  copy_text(group_->cause, cause);
  group_->word.store(number_ << 8 | static_cast<std::uint64_t>(GroupState::kBroken),
                     std::memory_order_release);
  recorder_->write_file();
}

}  // namespace dl::collectives::record
