// One rank of the model: what is not production code of it, its program and the driver's loop in
// small. It runs the very Protocol and Bells, and messages go through the very RingWriter and
// RingReader. A value, copied with the state of the world (explorer.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "collectives/shm/layout/ring.h"
#include "collectives/shm/protocol/protocol.h"

namespace dl::collectives::shm {

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

namespace model {

class RankInModel {
 public:
  RankInModel(int rank, int size);

  // Advances the program by one look. False if there was nothing to do. `sleeps`: then it sleeps
  // until a peer rings, however long that takes.
  bool turn(std::span<const Call> program, bool sleeps);
  bool is_done(std::span<const Call> program) const { return called_ == program.size() && !runs_; }

  // All that decides what comes.
  template <typename Add>
  void digest(const Add& add) const {
    for (const std::uint64_t x :
         {std::uint64_t{called_}, std::uint64_t{runs_}, std::uint64_t{front_.is_posted},
          static_cast<std::uint64_t>(front_.next_to_agree), std::uint64_t{front_.staged},
          std::uint64_t{front_.reduced}, std::uint64_t{front_.copied}, std::uint64_t{front_.worked},
          std::uint64_t{front_.is_worked_out}, std::uint64_t{is_over_},
          static_cast<std::uint64_t>(front_.plan.path), std::uint64_t{front_.has_claims},
          std::uint64_t{front_.plan.chunks}}) {
      add(x);
    }
    protocol_.visit_state(add);
    std::array<std::uint64_t, sizeof(Talk) / 8> talk{};
    std::memcpy(talk.data(), &talk_, sizeof talk_);
    for (const std::uint64_t x : talk) add(x);
  }

 private:
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

  int rank_;
  int size_;
  Protocol protocol_;
  Transfer front_{};
  Talk talk_{};
  std::size_t called_ = 0;
  bool runs_ = false;
  bool is_over_ = false;
};

// What the ranks ask of the model's memory beside words and copies. Places only; their contents are
// in the model.
std::byte* segment(int rank) noexcept;
const std::byte* input(int rank, std::size_t call) noexcept;
std::byte* output(int rank, std::size_t call) noexcept;

std::byte* symmetric(int rank) noexcept;

// The program's writes to its symmetric buffer before the call, if it has one.
void write_symmetric(int rank, std::size_t call) noexcept;
// Everything has arrived that the call promises; values are compared as they are written.
void check_output(int rank, std::size_t call) noexcept;
[[noreturn]] void violation(const std::string& text) noexcept;

}  // namespace model
}  // namespace dl::collectives::shm
