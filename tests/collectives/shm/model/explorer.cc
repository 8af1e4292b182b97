#include "tests/collectives/shm/model/explorer.h"

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <deque>
#include <unordered_set>
#include <utility>
#include <vector>

#include "collectives/reduce/reduce.h"

namespace dl::collectives::shm {
namespace model {
namespace {

constexpr std::size_t kMostCalls = 3;
constexpr std::size_t kMostElements = 96;  // of a buffer
constexpr std::size_t kElement = 8;
constexpr std::size_t kSymmetricElements = 24;

// ---- places -------------------------------------------------------------------------------------

alignas(64) std::byte segments[kMostRanks][kSegmentBytes];
std::byte inputs[kMostRanks][kMostCalls][kMostElements * kElement];
std::byte outputs[kMostRanks][kMostCalls][kMostElements * kElement];
std::byte symmetrics[kMostRanks][kSymmetricElements * kElement];

// The plain bytes of a rank that others reach, one behind the other.
constexpr std::size_t kCountsAt = sizeof(Block::cells) + sizeof(Block::more);
constexpr std::size_t kCellsBytes = kCountsAt + sizeof(Block::counts);
constexpr std::size_t kSymmetricAt = kCellsBytes + kSlots * kSlotBytes;
constexpr std::size_t kPlainOfRank = kSymmetricAt / kElement + kSymmetricElements;

enum WordOfRank : std::uint8_t {
  kFlag0,
  kFlag1,
  kLine0,
  kLine1,
  kStaged,
  kReduced,
  kConsumed,
  kBell,
  kAsleep
};
constexpr std::size_t kWordsOfRank = 9;
static_assert(kPayloadLines == 2);
constexpr std::size_t kWords = kMostRanks * kWordsOfRank;
constexpr Field kFields[] = {Field::kFlag,     Field::kFlag,   Field::kLine,
                             Field::kLine,     Field::kStaged, Field::kReduced,
                             Field::kConsumed, Field::kBell,   Field::kAsleep};
constexpr const char* kWordNames[] = {"flag 0",  "flag 1",   "line 0", "line 1", "staged",
                                      "reduced", "consumed", "bell",   "asleep"};

struct Place {
  enum class Kind : std::uint8_t { kLocal, kPlain, kInput, kOutput } kind = Kind::kLocal;
  std::size_t rank = 0;
  std::size_t call = 0;
  std::size_t index = 0;  // of the element; kPlain: among all
};

template <std::size_t N>
bool lies_in(const std::byte (&area)[N], const std::byte* at) {
  return at >= area && at < area + N;
}

Place place_of(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  for (std::size_t r = 0; r < kMostRanks; ++r) {
    if (lies_in(segments[r], at)) {
      const auto offset = static_cast<std::size_t>(at - segments[r]);
      std::size_t packed = offset;
      if (offset >= kSlotsOffset) {
        packed = offset - kSlotsOffset + kCellsBytes;
      } else if (offset >= offsetof(Block, counts)) {
        packed = offset - offsetof(Block, counts) + kCountsAt;
      }
      return {Place::Kind::kPlain, r, 0, r * kPlainOfRank + packed / kElement};
    }
    if (lies_in(symmetrics[r], at)) {
      const auto offset = static_cast<std::size_t>(at - symmetrics[r]);
      return {Place::Kind::kPlain, r, 0, r * kPlainOfRank + (kSymmetricAt + offset) / kElement};
    }
    for (std::size_t c = 0; c < kMostCalls; ++c) {
      if (lies_in(inputs[r][c], at)) {
        return {Place::Kind::kInput, r, c, static_cast<std::size_t>(at - inputs[r][c]) / kElement};
      }
      if (lies_in(outputs[r][c], at)) {
        return {Place::Kind::kOutput, r, c,
                static_cast<std::size_t>(at - outputs[r][c]) / kElement};
      }
    }
  }
  return {};
}

std::size_t word_at(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  constexpr std::size_t kOffsets[] = {0,
                                      sizeof(Cell),
                                      offsetof(Block, more),
                                      offsetof(Block, more) + sizeof(MoreLines),
                                      offsetof(Block, staged),
                                      offsetof(Block, reduced),
                                      offsetof(Block, consumed),
                                      offsetof(Block, bell),
                                      offsetof(Block, bell) + offsetof(Bell, asleep)};
  for (std::size_t r = 0; r < kMostRanks; ++r) {
    for (std::size_t f = 0; f < kWordsOfRank; ++f) {
      if (at == segments[r] + kOffsets[f]) return r * kWordsOfRank + f;
    }
  }
  violation("a word that the model does not know");
}

// ---- what calls mean ----------------------------------------------------------------------------

// Any values of which sums do not coincide.
std::uint64_t input_value(std::size_t call, std::size_t rank, std::size_t i) {
  std::uint64_t x = (call * 64 + rank) * 1024 + i + 1;
  x = (x ^ (x >> 7)) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 31);
}

struct Meaning {
  std::size_t elements = 0;  // that a rank gets
  std::uint64_t value = 0;   // of element i
};

Meaning meaning_of(std::span<const Call> program, std::size_t k, std::size_t rank, std::size_t size,
                   std::size_t i) {
  const Call& call = program[k];
  const auto root = static_cast<std::size_t>(call.root);
  const std::size_t n = call.count;
  const auto sum = [&](std::size_t at) {
    std::uint64_t all = 0;
    for (std::size_t r = 0; r < size; ++r) all += input_value(k, r, at);
    return all;
  };
  const auto part = [&](std::size_t from, std::size_t to) {
    return given(call, static_cast<int>(from), static_cast<int>(to));
  };
  // The first element for `to` in the input of `from`.
  const auto before = [&](std::size_t from, std::size_t to) {
    std::size_t all = 0;
    for (std::size_t r = 0; r < to; ++r) all += part(from, r);
    return all;
  };
  // Of all parts that this rank gets, one behind the other; `has_own`: each sender has one for it.
  const auto of_all = [&](bool has_own) {
    Meaning all;
    for (std::size_t from = 0; from < size; ++from) {
      const std::size_t count = part(from, rank);
      if (i >= all.elements && i < all.elements + count) {
        all.value = input_value(k, from, i - all.elements + (has_own ? before(from, rank) : 0));
      }
      all.elements += count;
    }
    return all;
  };
  switch (call.op) {
    case OpKind::kAllReduce:
      return {n, sum(i)};
    case OpKind::kReduce:
      return {rank == root ? n : 0, sum(i)};
    case OpKind::kReduceScatter:
    case OpKind::kReduceScatterv:
      return {part(0, rank), sum(before(0, rank) + i)};
    case OpKind::kBroadcast:
      return {rank == root ? 0 : n, input_value(k, root, i)};
    case OpKind::kGather:
    case OpKind::kGatherv:
      return rank == root ? of_all(false) : Meaning{};
    case OpKind::kAllGather:
    case OpKind::kAllGatherv:
      return of_all(false);
    case OpKind::kSend:
      return {rank == root ? 0 : n, input_value(k, 1 - rank, i)};
    case OpKind::kAllToAll:
    case OpKind::kAllToAllv:
      return of_all(true);
    case OpKind::kScatter:
    case OpKind::kScatterv:
      return {part(root, rank), input_value(k, root, before(root, rank) + i)};
    default:
      return {};
  }
}

// ---- the state of the world ---------------------------------------------------------------------

constexpr std::size_t kMostMessages = 48;  // of a word
constexpr std::size_t kMostAll = 400;

// What a rank knows to have happened.
struct Knowledge {
  std::array<std::uint16_t, kMostRanks> clock{};  // plain accesses of each rank before this time
  std::array<std::uint8_t, kWords> floor{};       // the oldest store of each word to be read yet

  void join(const Knowledge& other) {
    for (std::size_t r = 0; r < kMostRanks; ++r) clock[r] = std::max(clock[r], other.clock[r]);
    join_floors(other);
  }
  void join_floors(const Knowledge& other) {
    for (std::size_t w = 0; w < kWords; ++w) floor[w] = std::max(floor[w], other.floor[w]);
  }
};

// A store to a word; a rank that acquires it knows what its writer knew.
struct Message {
  std::uint64_t value = 0;
  Knowledge known{};
};

struct Word8 {
  std::uint8_t count = 0;
  std::array<std::uint16_t, kMostMessages> messages{};  // in modification order
};

// Eight plain bytes, and who has touched them when.
struct Plain {
  std::uint64_t value = 0;
  std::uint16_t written = 0;
  std::uint8_t writer = 0;
  std::array<std::uint16_t, kMostRanks> read{};
};

struct Rank {
  RankInModel self{0, 0};
  Knowledge now{};
  Knowledge acquired{};  // by a fence to come
  Knowledge released{};  // at the last fence
  Field last_stored = Field::kNone;
  std::array<std::uint64_t, (kMostElements + 63) / 64> arrived{};  // elements of the output

  // The pieces of the present turn that are over: what their accesses gave.
  std::size_t logged = 0;
  std::array<std::uint64_t, 96> log{};
};

struct World {
  std::array<Rank, kMostRanks> ranks;
  std::array<Word8, kWords> words;
  std::array<Plain, kMostRanks * kPlainOfRank> plain{};
  Knowledge fenced{};  // what SC fences hand on
  std::uint16_t fences = 0;
  std::size_t messages = 0;
  std::array<Message, kMostAll> all;

  World() = default;
  World(const World&) = delete;
  World& operator=(const World& other) {
    ranks = other.ranks;
    words = other.words;
    plain = other.plain;
    fenced = other.fenced;
    fences = other.fences;
    messages = other.messages;
    std::copy_n(other.all.begin(), messages, all.begin());
    return *this;
  }
};

// ---- one piece of a rank's turn -----------------------------------------------------------------

enum Outcome : int { kReturned = 0, kCut, kBlocked, kWrong };

// Which of the stores that it may read each load reads: counts through all combinations.
class Choices {
 public:
  std::size_t next(std::size_t limit) {
    if (used_ == all_.size()) all_.push_back({0, limit});
    return all_[used_++].taken;
  }
  void rewind() { used_ = 0; }
  bool advance() {
    all_.resize(used_);
    while (!all_.empty() && all_.back().taken + 1 == all_.back().limit) all_.pop_back();
    if (all_.empty()) return false;
    ++all_.back().taken;
    return true;
  }

 private:
  struct Choice {
    std::size_t taken;
    std::size_t limit;
  };
  std::vector<Choice> all_;
  std::size_t used_ = 0;
};

struct Running {
  std::span<const Call> program;
  Options options;
  World* world = nullptr;
  Rank* me = nullptr;
  std::size_t rank = 0;
  RankInModel self{0, 0};
  Choices* choices = nullptr;
  std::size_t replayed = 0;
  bool has_acted = false;
  bool has_written = false;
  std::string error;
  std::string* trace = nullptr;
  std::jmp_buf out;
} run;

bool replays() {
  return run.replayed < run.me->logged;
}

std::uint64_t note(std::uint64_t value) {
  if (run.me->logged == run.me->log.size()) violation("the model's log is full");
  run.me->log[run.me->logged++] = value;
  run.has_acted = true;
  ++run.replayed;
  return value;
}

void tell(const std::string& what) {
  if (run.trace != nullptr) *run.trace += "  rank " + std::to_string(run.rank) + " " + what + "\n";
}

std::string name_of_word(std::size_t word) {
  return std::string(kWordNames[word % kWordsOfRank]) + " of rank " +
         std::to_string(word / kWordsOfRank);
}

bool is_mutated(Mutation::Kind kind, std::size_t word) {
  return run.options.mutation.kind == kind &&
         run.options.mutation.field == kFields[word % kWordsOfRank];
}

// What follows may depend on how others go on after what was written.
void begin_piece_after_writing() {
  if (run.has_written) std::longjmp(run.out, kCut);
}

const Message& message(std::size_t word, std::size_t index) {
  return run.world->all[run.world->words[word].messages[index]];
}

void append(std::size_t word, std::uint64_t value, bool releases, const Knowledge* sequence) {
  World& world = *run.world;
  Rank& me = *run.me;
  Word8& w = world.words[word];
  if (w.count == kMostMessages || world.messages == kMostAll) violation("too many stores");
  me.now.floor[word] = w.count;
  Message& m = world.all[world.messages];
  m.value = value;
  m.known = releases ? me.now : me.released;
  m.known.floor[word] = w.count;
  if (sequence != nullptr) m.known.join(*sequence);
  w.messages[w.count++] = static_cast<std::uint16_t>(world.messages++);
  if (releases) ++me.now.clock[run.rank];
  me.last_stored = kFields[word % kWordsOfRank];
  run.has_written = true;
}

void check(bool is_ordered, const char* what, std::size_t plain, std::size_t other) {
  if (is_ordered) return;
  const std::size_t owner = plain / kPlainOfRank;
  const std::size_t at = plain % kPlainOfRank * kElement;
  const std::string where = at < sizeof(Block::cells) ? "cell " + std::to_string(at / sizeof(Cell))
                            : at < kCountsAt          ? "more lines"
                            : at < kCellsBytes
                                ? "counts " + std::to_string((at - kCountsAt) / sizeof(Counts))
                                : "slot " + std::to_string((at - kCellsBytes) / kSlotBytes);
  violation("a race: rank " + std::to_string(run.rank) + " " + what + " " + where + " of rank " +
            std::to_string(owner) + " without an order after rank " + std::to_string(other));
}

std::uint64_t read_plain(std::size_t index) {
  Plain& p = run.world->plain[index];
  const Knowledge& now = run.me->now;
  check(now.clock[p.writer] >= p.written, "reads", index, p.writer);
  p.read[run.rank] = now.clock[run.rank];
  return p.value;
}

void write_plain(std::size_t index, std::uint64_t value) {
  Plain& p = run.world->plain[index];
  const Knowledge& now = run.me->now;
  check(now.clock[p.writer] >= p.written, "writes", index, p.writer);
  for (std::size_t r = 0; r < kMostRanks; ++r) {
    check(now.clock[r] >= p.read[r], "overwrites", index, r);
  }
  p.writer = static_cast<std::uint8_t>(run.rank);
  p.written = now.clock[run.rank];
  p.value = value;
}

std::uint64_t read_element(const std::byte* at) {
  const Place place = place_of(at);
  if (place.kind == Place::Kind::kPlain) return read_plain(place.index);
  if (place.kind == Place::Kind::kInput) return input_value(place.call, place.rank, place.index);
  if (place.kind == Place::Kind::kOutput) violation("it reads what it has given away");
  std::uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void write_element(std::byte* at, std::uint64_t value) {
  const Place place = place_of(at);
  if (place.kind == Place::Kind::kPlain) return write_plain(place.index, value);
  if (place.kind != Place::Kind::kOutput) violation("it writes where it must not");
  if (place.rank != run.rank) violation("it writes into another rank's buffer");
  const Meaning meaning = meaning_of(run.program, place.call, run.rank,
                                     static_cast<std::size_t>(run.options.size), place.index);
  if (place.index >= meaning.elements) violation("it writes more than was asked for");
  if (value != meaning.value) {
    violation("element " + std::to_string(place.index) + " of rank " + std::to_string(run.rank) +
              "'s output of call " + std::to_string(place.call) + " is wrong");
  }
  run.me->arrived[place.index / 64] |= std::uint64_t{1} << place.index % 64;
}

template <typename Effect>
void once(const Effect& effect) {
  if (replays()) {
    ++run.replayed;
    return;
  }
  effect();
  note(0);
}

// Runs rank r of the world on to the next cut.
Outcome run_piece(World& world, std::size_t rank, Choices& choices) {
  run.world = &world;
  run.me = &world.ranks[rank];
  run.rank = rank;
  run.self = run.me->self;
  run.choices = &choices;
  run.replayed = 0;
  run.has_acted = false;
  run.has_written = false;
  choices.rewind();
  const int how = setjmp(run.out);
  if (how != kReturned) return static_cast<Outcome>(how);
  const bool moved = run.self.turn(run.program, run.options.sleeps);
  std::swap(run.me->self, run.self);
  run.me->logged = 0;
  return moved ? kReturned : kBlocked;
}

// ---- which states are the same ------------------------------------------------------------------

class Digest {
 public:
  void add(std::uint64_t x) {
    all_ = (all_ ^ x) * 0x9e3779b97f4a7c15u;
    all_ ^= all_ >> 29;
  }
  std::uint64_t value() const { return all_; }

 private:
  std::uint64_t all_ = 0x51ed270b7a4f31c5u;
};

// States in which the same can come have the same digest. What all ranks know that are not through
// counts for nothing, since no message can tell it to anybody; what they do not is counted from
// there, so that a state does not depend on how often a rank has slept before.
std::uint64_t digest_of(const World& world, std::size_t size, std::span<const Call> program,
                        bool sleeps) {
  Digest digest;
  const Knowledge* first = nullptr;
  Knowledge common;
  for (std::size_t r = 0; r < size; ++r) {
    digest.add(world.ranks[r].self.is_done(program));
    if (world.ranks[r].self.is_done(program)) continue;
    const Knowledge& now = world.ranks[r].now;
    if (first == nullptr) common = now;
    first = &now;
    for (std::size_t i = 0; i < size; ++i) {
      common.clock[i] = std::min(common.clock[i], now.clock[i]);
    }
    for (std::size_t w = 0; w < kWords; ++w) {
      common.floor[w] = std::min(common.floor[w], now.floor[w]);
    }
  }
  if (first == nullptr) return digest.value();
  const std::size_t words = size * kWordsOfRank;
  const auto add = [&](Knowledge k, const Knowledge& known) {
    k.join(known);
    for (std::size_t i = 0; i < size; ++i) digest.add(k.clock[i] - common.clock[i]);
    for (std::size_t w = 0; w < words; ++w) digest.add(k.floor[w] - common.floor[w]);
  };
  for (std::size_t r = 0; r < size; ++r) {
    const Rank& rank = world.ranks[r];
    if (rank.self.is_done(program)) continue;
    rank.self.digest([&](std::uint64_t x) { digest.add(x); });
    add(rank.now, common);
    digest.add(rank.logged);
    for (std::size_t i = 0; i < rank.logged; ++i) digest.add(rank.log[i]);
    for (const std::uint64_t bits : rank.arrived) digest.add(bits);
    if (!sleeps) continue;
    digest.add(rank.last_stored == Field::kAsleep);
    add(rank.acquired, rank.now);
    add(rank.released, common);
  }
  for (std::size_t w = 0; w < words; ++w) {
    const Word8& word = world.words[w];
    digest.add(static_cast<std::size_t>(word.count - common.floor[w]));
    for (std::size_t i = common.floor[w]; i < word.count; ++i) {
      const Message& m = world.all[word.messages[i]];
      digest.add(m.value);
      add(m.known, common);
    }
  }
  for (std::size_t i = 0; i < size * kPlainOfRank; ++i) {
    const Plain& p = world.plain[i];
    const auto open = [&](std::uint16_t time, std::size_t rank) {
      return static_cast<std::uint64_t>(std::max(0, time - common.clock[rank]));
    };
    const std::uint64_t written = open(p.written, p.writer);
    digest.add(written == 0 ? 0 : written * kMostRanks + p.writer);
    for (std::size_t r = 0; r < size; ++r) digest.add(open(p.read[r], r));
    digest.add(p.value);
  }
  if (sleeps) add(world.fenced, common);
  return digest.value();
}

// ---- all of them --------------------------------------------------------------------------------

class Explorer {
 public:
  Explorer(std::span<const Call> program, const Options& options)
      : size_(static_cast<std::size_t>(options.size)) {
    run.program = program;
    run.options = options;
    run.error.clear();
    World& first = at(0);
    for (std::size_t w = 0; w < kWords; ++w) {
      first.words[w].count = 1;  // zero, known to all
      first.words[w].messages[0] = 0;
    }
    first.messages = 1;
    for (std::size_t r = 0; r < size_; ++r) {
      first.ranks[r].self = RankInModel(static_cast<int>(r), options.size);
      first.ranks[r].now.clock[r] = 1;
    }
  }

  Result all() {
    if (!go_on(0)) result_.error = run.error + "\n" + story();
    return result_;
  }

 private:
  World& at(std::size_t depth) {
    while (worlds_.size() <= depth) worlds_.emplace_back();
    return worlds_[depth];
  }

  bool go_on(std::size_t depth) {
    World& world = at(depth);
    if (!states_.insert(digest_of(world, size_, run.program, run.options.sleeps)).second)
      return true;
    World& next = at(depth + 1);
    bool all_done = true;
    bool none_could = true;
    for (std::size_t r = 0; r < size_; ++r) {
      if (world.ranks[r].self.is_done(run.program)) continue;
      all_done = false;
      Choices choices;
      do {
        next = world;
        const Outcome outcome = run_piece(next, r, choices);
        ++result_.pieces;
        path_.resize(depth);
        path_.emplace_back(r, choices);
        if (outcome == kWrong) return false;
        if (outcome == kBlocked) continue;
        none_could = false;
        if (!go_on(depth + 1)) return false;
      } while (choices.advance());
    }
    if (all_done) ++result_.ends;
    if (all_done || !none_could) return true;
    run.error = "nobody goes on:";
    for (std::size_t r = 0; r < size_; ++r) {
      if (!world.ranks[r].self.is_done(run.program)) run.error += " rank " + std::to_string(r);
    }
    path_.resize(depth);
    return false;
  }

  // What happened on the way to the error.
  std::string story() {
    std::string told;
    auto way = path_;
    Explorer again(run.program, run.options);
    World& world = again.at(0);
    run.trace = &told;
    for (auto& [rank, choices] : way) run_piece(world, rank, choices);
    run.trace = nullptr;
    return told;
  }

  std::size_t size_;
  std::deque<World> worlds_;
  std::vector<std::pair<std::size_t, Choices>> path_;
  std::unordered_set<std::uint64_t> states_;
  Result result_;
};

}  // namespace

// ---- what the code of a rank calls --------------------------------------------------------------

std::uint64_t load(const void* address, std::memory_order order) noexcept {
  if (replays()) return run.me->log[run.replayed++];
  Rank& me = *run.me;
  const std::size_t word = word_at(address);
  const Field field = kFields[word % kWordsOfRank];
  const std::size_t count = run.world->words[word].count;
  std::size_t index = me.now.floor[word];
  if (field == Field::kAsleep) {
    // The worst value that it may read is that no rank sleeps. A ring that could have been left out
    // wakes a rank that might as well have looked once more before it slept.
    std::size_t awake = index;
    while (awake < count && message(word, awake).value != 0) ++awake;
    if (awake < count) index = awake;
  } else {
    begin_piece_after_writing();
    // An old number of rings lets no rank sleep on: only the last one matters.
    index = field == Field::kBell ? count - 1 : index + run.choices->next(count - index);
  }
  const Message& m = message(word, index);
  me.now.floor[word] = static_cast<std::uint8_t>(index);
  const bool acquires =
      order == std::memory_order_acquire && !is_mutated(Mutation::Kind::kRelaxedLoad, word);
  (acquires ? me.now : me.acquired).join(m.known);
  if (run.trace != nullptr) {
    tell("reads " + std::to_string(m.value) + " from " + name_of_word(word));
  }
  return note(m.value + (is_mutated(Mutation::Kind::kOneTooMany, word) ? 1 : 0));
}

void store(const void* address, std::uint64_t value, std::memory_order order) noexcept {
  once([&] {
    const std::size_t word = word_at(address);
    tell("stores " + std::to_string(value) + " to " + name_of_word(word));
    append(word, value,
           order == std::memory_order_release && !is_mutated(Mutation::Kind::kRelaxedStore, word),
           nullptr);
  });
}

std::uint64_t add(const void* address, std::uint64_t value, std::memory_order order) noexcept {
  if (replays()) return run.me->log[run.replayed++];
  begin_piece_after_writing();
  const std::size_t word = word_at(address);
  const std::size_t last = run.world->words[word].count - std::size_t{1};
  const Message before = message(word, last);
  run.me->acquired.join(before.known);
  tell("adds to " + name_of_word(word));
  // Counted modulo 8, so that there are fewer states: too little would be seen as a lost ring.
  append(word, (before.value + value) % 8, order == std::memory_order_release, &before.known);
  return note(before.value);
}

void copy(void* to, const void* from, std::size_t bytes) noexcept {
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  if (place_of(to).kind == Place::Kind::kLocal) {
    for (std::size_t at = 0; at < bytes; at += kElement) {
      const std::uint64_t value =
          replays() ? run.me->log[run.replayed++] : note(read_element(source + at));
      std::memcpy(target + at, &value, std::min(kElement, bytes - at));
    }
    return;
  }
  once([&] {
    for (std::size_t at = 0; at < bytes; at += kElement) {
      write_element(target + at, read_element(source + at));
    }
  });
}

std::byte* segment(int rank) noexcept {
  return segments[rank];
}
const std::byte* input(int rank, std::size_t call) noexcept {
  return inputs[rank][call];
}
std::byte* output(int rank, std::size_t call) noexcept {
  return outputs[rank][call];
}

std::byte* symmetric(int rank) noexcept {
  return symmetrics[rank];
}

void write_symmetric(int rank, std::size_t call) noexcept {
  once([&] {
    const Call& what = run.program[call];
    const bool has_parts = what.op == OpKind::kReduceScatter;
    const std::size_t count =
        what.count * (has_parts ? static_cast<std::size_t>(run.options.size) : 1);
    if (count > kSymmetricElements) violation("too long for a symmetric buffer");
    for (std::size_t i = 0; i < count; ++i) {
      write_element(symmetrics[rank] + i * kElement,
                    input_value(call, static_cast<std::size_t>(rank), i));
    }
  });
}

void check_output(int rank, std::size_t call) noexcept {
  once([&] {
    const Call& what = run.program[call];
    const auto meaning = [&](std::size_t i) {
      return meaning_of(run.program, call, static_cast<std::size_t>(rank),
                        static_cast<std::size_t>(run.options.size), i);
    };
    const bool in_place = (what.symmetric >> rank & 1) != 0 &&
                          (what.op == OpKind::kAllReduce || what.op == OpKind::kBroadcast);
    std::size_t have = 0;
    for (std::uint64_t& bits : run.me->arrived) {
      have += static_cast<std::size_t>(std::popcount(std::exchange(bits, 0)));
    }
    for (std::size_t i = 0; in_place && i < meaning(0).elements; ++i) {
      have += read_element(symmetrics[rank] + i * kElement) == meaning(i).value ? 1 : 0;
    }
    if (have != meaning(0).elements) violation("a call is over and its output is not whole");
  });
}

void violation(const std::string& text) noexcept {
  run.error = text;
  std::longjmp(run.out, kWrong);
}

Result explore(std::span<const Call> program, const Options& options) {
  Slots::in_use = options.slots;
  return Explorer(program, options).all();
}

}  // namespace model

// ---- in place of bell.cc ------------------------------------------------------------------------

void ring(Bell& bell) noexcept {
  bell.word.fetch_add(1, std::memory_order_release);
}

void nap(Bell& bell, std::uint32_t seen, std::chrono::nanoseconds) noexcept {
  using namespace model;
  once([&] {
    // What it has read before stands, however long it sleeps.
    if (run.has_acted) std::longjmp(run.out, kCut);
    const std::size_t index = word_at(&bell.word);
    const std::size_t last = run.world->words[index].count - std::size_t{1};
    // The kernel compares with the last store and sleeps in one step. Its look is this rank's.
    if (message(index, last).value == seen) std::longjmp(run.out, kBlocked);
    run.me->now.floor[index] = static_cast<std::uint8_t>(last);
    tell("is woken");
  });
}

void full_fence() noexcept {
  using namespace model;
  if (!run.options.sleeps) return;
  once([&] {
    const bool is_sleepers = run.me->last_stored == Field::kAsleep;
    tell(is_sleepers ? "fences, about to sleep" : "fences, having written");
    if (run.options.mutation.kind ==
        (is_sleepers ? Mutation::Kind::kNoSleepersFence : Mutation::Kind::kNoPublishersFence)) {
      return;
    }
    begin_piece_after_writing();
    Rank& me = *run.me;
    me.now.join(me.acquired);
    // SC fences order what may be read, and synchronise nothing.
    me.now.join_floors(run.world->fenced);
    run.world->fenced.join_floors(me.now);
    ++run.world->fences;
    me.released = me.now;
    ++me.now.clock[run.rank];
    run.has_written = true;
  });
}

}  // namespace dl::collectives::shm

// ---- in place of algorithms/reduce.cc -----------------------------------------------------------

namespace dl::collectives {

void combine(DType, ReduceOp, void* dst, std::span<const void* const> shares, std::size_t count,
             Order) {
  using namespace shm::model;
  once([&] {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t sum = 0;
      for (const void* const share : shares) {
        sum += read_element(static_cast<const std::byte*>(share) + i * kElement);
      }
      write_element(static_cast<std::byte*>(dst) + i * kElement, sum);
    }
  });
}

bool needs_raw_shares(DType, ReduceOp) noexcept {
  return false;
}

void finish(DType, ReduceOp, void*, std::size_t, int) {}

void reduce(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count) {
  const void* const shares[] = {a, b};
  combine(dtype, op, dst, shares, count, Order::kPlan);
}

}  // namespace dl::collectives
