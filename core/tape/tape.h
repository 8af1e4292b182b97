// Tape: a recording, ready to run: its steps with their memory.
//
// Memory that only steps use is in one arena, in which blocks that are never in use together share
// a place. A run calls the steps in order, and does nothing else: no checks of shapes, no memory,
// no autograd. It writes the bits that the recorded code would write, if that code would do the
// same again; the owner finds out whether it would (nn/compile).
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "core/tape/arena.h"
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
  std::size_t arena_bytes() const noexcept { return plan_.bytes; }
  // The bytes of all blocks that share the arena, each on its own.
  std::size_t shared_bytes() const noexcept { return shared_bytes_; }

 private:
  void bind();

  Recording recording_;
  ArenaPlan plan_;
  std::vector<std::size_t> shared_;  // the blocks in it, in the plan's order
  std::size_t shared_bytes_ = 0;
  bool is_bound_ = false;
};

}  // namespace dl::tape
