// Diagnosis: which rank stopped in which operation, and what the other ranks waited for. The rules
// alone, from a Case to a Finding.
//
// The rules are tried in this order:
//   1. a rank that dlrun saw die by itself
//   2. ranks that called different operations under one number
//   3. a process that is stopped
//   4. a rank that other ranks wait for and that waits for none
//   5. ranks that wait for each other in a circle
//   6. an operation that all have called and none has finished
//
// A rank waits if its group's oldest operation that did not end well needs another rank, which has
// not called it or which the recorder names. A running rank counts as waiting, or as awaited, after
// one second.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/autopsy/case.h"

namespace dl::launcher::autopsy {

// One group as one rank saw it.
struct Membership {
  const collectives::record::RankFacts* rank = nullptr;
  const collectives::record::GroupFacts* group = nullptr;
  // The oldest operation that is unfinished or failed; null: none.
  const collectives::record::Operation* current = nullptr;
  // The last operation that was called; null if the ring has lost it.
  const collectives::record::Operation* last = nullptr;
  std::vector<int> waits_for;  // ranks of the world
};

struct Finding {
  enum class Kind : std::uint8_t {
    kNothing,   // no rank waits
    kDied,      // a rank ended by itself
    kMismatch,  // ranks called different operations
    kStopped,   // a process is stopped
    kBehind,    // a rank has not called the others' operation
    kCircle,    // ranks wait for each other in different groups
    kSlow,      // all ranks have called the operation
  };
  Kind kind = Kind::kNothing;
  std::vector<int> culprits;       // the most important first
  std::vector<std::string> lines;  // for the user, the most important first
};

struct Diagnosis {
  std::vector<Membership> members;  // by rank, then group
  Finding finding;
};

std::string_view name_of(Finding::Kind kind) noexcept;

// Points into `from`.
Diagnosis diagnose(const Case& from);

// "all_reduce #42 (f32[1000] sum)", "recv #3 (f32[5], tag 42)"
std::string text(const collectives::record::Operation& operation);
// "rank 1 (box, pid 4711)"
std::string who(const collectives::record::RankFacts& rank);
// How the process ended, in the words of the page of the failed job, or its state: "was killed by
// signal 9 (SIGKILL)", "runs".
std::string fate(const collectives::record::RankFacts& rank);
// The duration of the operation, up to its end, the end of the rank or the copy: "0.31 s"; "" if
// the clocks do not tell.
std::string duration(const collectives::record::RankFacts& rank,
                     const collectives::record::Operation& operation);

}  // namespace dl::launcher::autopsy
