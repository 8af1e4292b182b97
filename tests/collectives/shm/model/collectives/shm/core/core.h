// In place of the file of the same name: one rank of the model. It has the members on which
// advance.cc, direct.cc, inline.cc and wake.cc work, whose very code runs here, and is copied with
// the state of the world (explorer.h). Messages go through the very RingWriter and RingReader.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>

#include "collectives/call/descriptor.h"
#include "collectives/shm/layout/layout.h"
#include "collectives/shm/layout/plan.h"
#include "collectives/shm/layout/ring.h"

namespace dl::collectives::shm {

// One value a rank.
template <typename T>
class Ranks {
 public:
  explicit Ranks(int size) : size_(static_cast<std::size_t>(size)) {}
  T& operator[](std::size_t rank) { return all_[rank]; }
  const T& operator[](std::size_t rank) const { return all_[rank]; }
  T* begin() { return all_.data(); }
  T* end() { return all_.data() + size_; }
  const T* begin() const { return all_.data(); }
  const T* end() const { return all_.data() + size_; }
  const T& front() const { return all_[0]; }
  std::size_t size() const { return size_; }

 private:
  std::array<T, kMostRanks> all_{};
  std::size_t size_;
};

// The only symmetric memory.
struct Mapped {
  std::uint64_t number() const { return 1; }
  std::byte* of(int rank) const;
  void cut_off(std::size_t, std::size_t) const {}
};
struct Memories {
  struct Place {
    const Mapped* memory;
    std::size_t offset;
  };
  Place find(const void* data, std::size_t bytes) const;
};
// Records nothing.
struct Log {
  void start(std::nullptr_t, std::uint8_t) const {}
};

struct Operation {
  Descriptor descriptor{};
  OpKind kind = OpKind::kBarrier;
  std::uint32_t hash = 0;
  Plan plan{};
  const std::byte* input = nullptr;
  Parts gives{};
  std::byte* output = nullptr;
  Parts takes{};
  const Mapped* memory = nullptr;
  Claim claim{};
  std::nullptr_t slot = nullptr;
  bool is_posted = false;
  int next_to_agree = 0;
  std::uint64_t first_chunk = 0;
  std::size_t staged = 0;
  std::size_t reduced = 0;
  std::size_t copied = 0;
  bool has_claims = false;
  std::size_t worked = 0;
  bool is_worked_out = false;
  bool is_over = false;
};

struct Peer {
  struct {
    int rank = 0;
    std::string text() const { return "rank " + std::to_string(rank); }
  } who;
  Block* block = nullptr;
  std::byte* slots = nullptr;
  std::uint64_t staged = 0;
  std::uint64_t reduced = 0;
  std::uint64_t consumed = 0;
};

// What all ranks call, one after the other. A send goes from `root` to the other of two ranks, or
// with -1 from each to the other.
struct Call {
  OpKind op = OpKind::kBarrier;
  std::size_t count = 0;  // elements of 8 bytes; of a v-variant as in given()
  int root = -1;
  unsigned symmetric = 0;  // bit r: of rank r the buffer that others may reach is symmetric
};

// How many elements one rank gives another: of a v-variant 0, 1 or 2 times the count.
std::size_t given(const Call& call, int from, int to) noexcept;

class Core {
 public:
  Core(int rank, int size);

  // Advances the program by one look: a small version of the driver's loop. False if there was
  // nothing to do. `sleeps`: then it sleeps until a peer rings, however long that takes.
  bool turn(std::span<const Call> program, bool sleeps);
  bool is_done(std::span<const Call> program) const { return called_ == program.size() && !runs_; }

  // All that decides what comes.
  template <typename Add>
  void digest(const Add& add) const {
    for (const std::uint64_t x :
         {std::uint64_t{called_}, std::uint64_t{runs_}, next_chunk_, std::uint64_t{owes_settling_},
          std::uint64_t{front_.is_posted}, static_cast<std::uint64_t>(front_.next_to_agree),
          std::uint64_t{front_.staged}, std::uint64_t{front_.reduced}, std::uint64_t{front_.copied},
          std::uint64_t{front_.worked}, std::uint64_t{front_.is_worked_out},
          std::uint64_t{front_.is_over}, static_cast<std::uint64_t>(front_.plan.path),
          std::uint64_t{front_.has_claims}, std::uint64_t{front_.plan.chunks}}) {
      add(x);
    }
    for (const Claim& claim : claims_) {
      add(claim.memory);
      add(claim.chunks);
    }
    std::array<std::uint64_t, sizeof(Talk) / 8> talk{};
    std::memcpy(talk.data(), &talk_, sizeof talk_);
    for (const std::uint64_t x : talk) add(x);
    for (const Peer& p : peers_) {
      add(p.staged);
      add(p.reduced);
      add(p.consumed);
    }
  }

 private:
  Block& own() noexcept { return *peers_[static_cast<std::size_t>(rank_)].block; }
  Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  int size() const noexcept { return static_cast<int>(peers_.size()); }
  bool is_closed() const noexcept { return false; }
  bool adopt_peers_cause() noexcept { return false; }
  bool has_operations() const noexcept { return runs_ && !front_.is_over; }
  std::byte* slot(Peer& p, std::uint64_t chunk) noexcept {
    return p.slots + chunk % slots_ * kSlotBytes;
  }

  // One message to the other rank and one from it.
  struct Talk {
    RingWriter out;
    RingReader in;
    std::size_t to_send = 0;  // bytes
    std::size_t sent = 0;
    std::size_t to_get = 0;
    std::size_t got = 0;
    std::uint64_t is_sending = 0;  // true before its frame is begun
    std::uint64_t is_amid_send = 0;
    std::uint64_t is_getting = 0;
    std::uint64_t is_amid_get = 0;
    Frame frame;
  };
  static_assert(std::is_trivially_copyable_v<Talk> && sizeof(Talk) % 8 == 0);

  void begin(const Call& call);
  void begin_talk(const Call& call);
  bool talk();
  bool step();
  void finish_front();
  void fail_mismatch(const Descriptor& operation, const Peer& p, const std::string& text) noexcept;

  // wake.cc
  void published() noexcept;
  void published_to(Peer& p) noexcept;
  void settle() noexcept;
  bool sleep(std::chrono::nanoseconds most);

  // advance.cc
  bool advance(Operation& op);
  bool post(Operation& op);
  bool agree(Operation& op);
  bool has_agreed_counts(Operation& op, Peer& p);
  bool advance_chunk(Operation& op);
  bool may_stage(std::uint64_t chunk) noexcept;
  bool all_have(std::uint64_t Peer::* seen, Counter Block::* counter, std::uint64_t count) noexcept;
  bool has(Peer& peer, std::uint64_t Peer::* seen, Counter Block::* counter,
           std::uint64_t count) noexcept;
  void stage(Operation& op, std::size_t k);
  void reduce_chunk(Operation& op, std::size_t k);
  void copy_chunk(Operation& op, std::size_t k);
  void publish(Counter& counter, std::uint64_t count) noexcept;

  // inline.cc
  bool has_more_lines(const Operation& op) const noexcept { return op.plan.payload > kLinePayload; }
  void post_first_line(const Operation& op, Cell& cell) noexcept;
  void post_more_lines(const Operation& op) noexcept;
  bool has_payload(const Operation& op, const Peer& p) const noexcept;
  void finish_inline(Operation& op);

  // direct.cc
  void claim(Operation& op);
  void choose_path(Operation& op);
  bool advance_direct(Operation& op);
  void work_directly(Operation& op, Range elements);
  void withdraw_memory(Operation& op) noexcept;

  static constexpr Memories kMemories{};
  static constexpr const Memories* memories_ = &kMemories;
  static constexpr Log log_{};
  static constexpr std::array<std::uint8_t, kPathCount> path_numbers_{};

  static constexpr Slots slots_{};
  int rank_;
  Ranks<Peer> peers_;
  Ranks<const void*> shares_;
  Ranks<Claim> claims_;
  std::array<std::byte, kMostRanks * kInlineBytes> taken_lines_{};
  std::array<std::size_t, 2> lines_used_{};
  Operation front_{};
  Talk talk_{};
  std::size_t called_ = 0;
  bool runs_ = false;
  std::uint64_t next_chunk_ = 0;
  bool owes_settling_ = false;
};

void sum_shares(const Descriptor& what, std::byte* dst, std::span<const void* const> shares,
                std::size_t count);

}  // namespace dl::collectives::shm
