// Cause: why a process group broke, as a value: what happened, which rank is blamed for it, and
// which rank found it. Ranks send it to each other and to their dlrun; only its text is for people.
//
// Ranks are numbers in the job (RANK), whatever the group numbers them. A value; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace dl::rendezvous {

// What the blamed rank has done.
enum class Blame : std::uint8_t {
  kNone,         // no other rank is blamed
  kGone,         // its connections ended without a goodbye: its process has ended, or is ending
  kLeft,         // it left the group in good order, without doing its part
  kUnreachable,  // its host acknowledges nothing
  kMissing,      // it did not do its part before the deadline
  kBroke,        // it broke the group: abort(), an early destruction, or an error of its own
  kMismatch,     // it called something else
  kLink,         // nothing: a connection to it was ended, and it runs
};
// "gone", "left", ...: as it stands in the control protocol.
std::string_view name_of(Blame blame) noexcept;
std::optional<Blame> blame_of(std::string_view name) noexcept;

struct Cause {
  ErrorKind kind = ErrorKind::kInternal;
  Blame blame = Blame::kNone;
  int rank = -1;               // the blamed rank; -1: not known, or none
  int found_by = -1;           // the rank that found it; -1: the rank that holds this value
  bool is_whole = false;       // the text names the operation that the program called
  std::uint64_t sequence = 0;  // of the operation in which it was found; 0: in none
  std::string operation{};     // its title: "all_reduce #1042"; empty: in none
  std::string text{};          // as the error says it
};

// At most `most` bytes, of which a long text loses its end.
std::string encode(const Cause& cause, std::size_t most);
// nullopt for what encode() has not written.
std::optional<Cause> decode_cause(std::string_view bytes);

}  // namespace dl::rendezvous
