// Checks that a program's output was written. main() calls open_missing_standard_streams() first,
// and require_written() for stdout last.
//
// Thread-safety: any thread may call require_written() and write_all().
#pragma once

#include <cstdio>
#include <string_view>

namespace dl {

// Flushes `file`. Throws kIo if anything printed to it could not be written: a run that loses its
// result has failed.
void require_written(std::FILE* file, std::string_view name);

// Writes to standard error. If that cannot be written either, there is no one to tell: the
// program goes on to its end and its exit code.
void write_error(std::string_view text) noexcept;

// Writes to a descriptor that blocks. Returns 0, or the errno value of the write() that failed. One
// write() unless the file takes only a part, because several processes may append to it.
int write_all(int fd, std::string_view text) noexcept;

// Opens the standard streams that the program was started without (`program >&-`), so that no file
// or socket gets their descriptors and receives prints. Reading standard input then gives end of
// file; writing to the other two fails with EBADF, as if they were closed.
void open_missing_standard_streams() noexcept;

}  // namespace dl
