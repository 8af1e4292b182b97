// The checks of a call that ProcessGroup makes once for every backend, before the call starts. Pure
// functions; any thread.
#pragma once

#include <string_view>

#include "collectives/call/options.h"

namespace dl::collectives {

// Throws kDType if the pair has no meaning: bitwise operations on floats, avg of bool. `operation`
// begins the text: "all_reduce".
void check_reduction(DType dtype, ReduceOp op, std::string_view operation);

}  // namespace dl::collectives
