// What main() of train_image does. A program with other defaults is a main() with another Program.
#pragma once

#include "examples/train_image/options.h"

namespace dl::examples {

// Returns the exit code. An Error that leaves it ends the program with its text and 1.
int run_program(const Program& program, int argc, const char* const* argv);

}  // namespace dl::examples
