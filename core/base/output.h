// Whether what a program has printed has found its way. Any thread.
#pragma once

#include <cstdio>
#include <string_view>

namespace dl {

// Flushes `file`. Throws kIo where something that was printed to it could not be written: a lost
// result is no good run.
void require_written(std::FILE* file, std::string_view name);

}  // namespace dl
