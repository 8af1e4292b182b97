// Products of batches with several dimensions are recorded as a loop of steps over all but the last
// one. Here such steps become one again, so that their number does not depend on the batch:
//
//     attention of 3 samples with 2 heads    3 steps of [2, L, E] [2, E, S]
//     as one                                 1 step of [3, 2, L, E] [3, 2, E, S]
#pragma once

#include <vector>

#include "core/tape/recorder.h"

namespace dl::onnx {

// A step, or several equal ones as one, whose operands then have one dimension more.
struct RecordedCall {
  const tape::Step* step;
  std::vector<tape::Operand> operands;
};

std::vector<RecordedCall> without_loops(const tape::Recording& recording);

}  // namespace dl::onnx
