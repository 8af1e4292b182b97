// Reuse: results that take the memory of an operand, if nothing reads the operand after the step.
#pragma once

#include <cstddef>
#include <vector>

#include "core/tape/recorder.h"

namespace dl::tape {

// For each block the one whose memory it takes: itself, or a block that is last used by the step
// that uses this one first. Only blocks that steps alone use.
std::vector<std::size_t> find_reuses(const Recording& recording);

}  // namespace dl::tape
