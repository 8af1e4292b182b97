// Who stopped where, and what the others waited for: the rules alone, from a Case to a Finding.
//
// In this order: a rank that dlrun saw die on its own; ranks that called different things under one
// number; a process that is stopped; the rank that others wait for and that waits for none; ranks
// that wait for each other in a circle; an operation that all have called and none has finished.
//
// A rank that runs is not said to wait, or to be waited for, before that has lasted a second.
//
// A rank waits if its group's oldest operation that did not end well needs a rank which has not
// called it, or which its recorder names.
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
  // The oldest operation that is not over or failed; null: there is none.
  const collectives::record::Operation* current = nullptr;
  // The last one that was called; null if the ring has lost it.
  const collectives::record::Operation* last = nullptr;
  std::vector<int> waits_for;  // ranks of the world
};

struct Finding {
  enum class Kind : std::uint8_t {
    kNothing,   // no rank waits
    kDied,      // a rank ended on its own
    kMismatch,  // ranks called different things
    kStopped,   // a process is stopped
    kBehind,    // a rank has not called what the others are in
    kCircle,    // ranks wait for each other in different groups
    kSlow,      // all have called it
  };
  Kind kind = Kind::kNothing;
  std::vector<int> culprits;       // by importance
  std::vector<std::string> lines;  // what to tell, first things first
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
// How the process ended, or what it does: "was killed by signal 9 (SIGKILL)", "runs".
std::string fate(const collectives::record::RankFacts& rank);
// How long the operation took, or has been under way when the rank ended or the copy was taken:
// "0.31 s"; "" if the clocks do not say.
std::string duration(const collectives::record::RankFacts& rank,
                     const collectives::record::Operation& operation);

}  // namespace dl::launcher::autopsy
