// Whether what a program has printed has found its way. Any thread.
#pragma once

#include <cstdio>
#include <string_view>

namespace dl {

// Flushes `file`. Throws kIo where something that was printed to it could not be written: a lost
// result is no good run.
void require_written(std::FILE* file, std::string_view name);

// Takes the numbers of those standard streams that the caller has closed (`program >&-`), so that
// no file or socket gets them and is written to by a print. Standard input is then at its end;
// what is written to the other two is an EBADF, as if they were still closed.
void open_missing_standard_streams() noexcept;

}  // namespace dl
