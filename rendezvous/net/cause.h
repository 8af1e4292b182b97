// Cause: why a process group broke, as a value. It says what happened, which rank is to blame, and
// which rank found it. Ranks send it to each other and to their dlrun; only its text is for people.
//
// Ranks are numbers in the job (RANK), even if the group numbers them differently. A value; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace dl::rendezvous {

// What the blamed rank did.
enum class Blame : std::uint8_t {
  kNone,         // no other rank is blamed
  kGone,         // its connections ended without a goodbye: its process has ended, or is ending
  kLeft,         // it left the group without an error, but before doing its part
  kUnreachable,  // its host acknowledges nothing
  kMissing,      // it did not do its part before the deadline
  kBroke,        // it broke the group: abort(), an early destruction, or an error of its own
  kMismatch,     // it called another operation
  kLink,         // nothing: a connection to it has ended, but it still runs
  kRenewal,      // nothing: a rank makes the group anew (reform()); no rank is blamed
};
// "gone", "left", ...: names in the control protocol.
std::string_view name_of(Blame blame) noexcept;
std::optional<Blame> blame_of(std::string_view name) noexcept;

// Whether it is a failure that dlrun is to hear of.
constexpr bool blames(Blame blame) noexcept {
  return blame != Blame::kNone && blame != Blame::kRenewal;
}

struct Cause {
  ErrorKind kind = ErrorKind::kInternal;
  Blame blame = Blame::kNone;
  int rank = -1;               // the blamed rank; -1: not known, or none
  int found_by = -1;           // the rank that found it; -1: the rank that holds this value
  bool is_whole = false;       // the text names the operation that the program called
  std::uint64_t sequence = 0;  // of the operation in which it was found; 0: none
  std::string operation{};     // its title: "all_reduce #1042"; empty: none
  std::string text{};          // the error's text
};

// At most `most` bytes; a longer text is truncated.
std::string encode(const Cause& cause, std::size_t most);
// Returns nullopt if encode() did not write these bytes.
std::optional<Cause> decode_cause(std::string_view bytes);

}  // namespace dl::rendezvous
