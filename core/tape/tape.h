// Tape: a recording, ready to run: its steps with their memory.
//
// Memory that only steps use is in one arena, in which blocks that are never in use together share
// a place; a result may have the place of an operand that ends with it. A run calls the steps in
// order, some of them together (plan/chain.h), and does nothing else: no checks of shapes, no
// memory, no autograd. It writes the bits that the recorded code would write, if that code would do
// the same again; the owner finds out whether it would (nn/compile).
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "core/tape/plan/chain.h"
#include "core/tape/plan/memory.h"
#include "core/tape/recorder.h"

namespace dl::tape {

class Tape {
 public:
  // Takes a recording that was not refused.
  explicit Tape(Recording recording);

  // Whether all conditions of the recording hold.
  bool can_run() const;
  // Call it without autograd. The first run makes the arena, and gives back to the system the
  // memory that the recorded code has used and does not need any more.
  void run();

  const Recording& recording() const noexcept { return recording_; }
  std::size_t arena_bytes() const noexcept { return memory_.arena.bytes; }
  // The bytes of all blocks that share the arena, each on its own.
  std::size_t separate_bytes() const noexcept { return memory_.separate_bytes; }
  std::size_t chains() const noexcept { return chains_.size(); }

 private:
  void bind();
  void link();

  Recording recording_;
  std::vector<Chain> chains_;
  MemoryPlan memory_;
  std::vector<Link> links_;  // in the order of a run; empty: not bound yet
};

}  // namespace dl::tape
