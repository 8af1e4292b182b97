// The descriptors that connect a rank to dlrun. All are close-on-exec; everything throws kIo.
#pragma once

#include <sys/resource.h>

#include <string>

#include "core/base/unique_fd.h"

namespace dl::launcher {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
Pipe make_pipe();
UniqueFd duplicate(int fd);
UniqueFd open_null();

// The descriptor reads nothing at all, also if an image without device nodes holds a file in
// /dev/null's place, with what programs have written to it.
UniqueFd open_empty_input(const char* null = "/dev/null");

// Rank 0 reads dlrun's standard input; nothing if that is a terminal and dlrun runs in its
// background, as its input belongs to the shell then.
UniqueFd stdin_for_rank();

// A file that has no name and leaves nothing behind.
UniqueFd make_memory_file(const char* name);
// A path under which every process of this user finds a descriptor of this one.
std::string path_of_descriptor(int fd);

// Writes the file anew; returns what went wrong, else "".
std::string write_file(const std::string& path, const std::string& text);
// The first MiB of the file; nothing if it cannot be read.
std::string read_file(const std::string& path);

// Descriptors that dlrun needs for so many ranks.
int descriptors_for(int ranks, bool with_logs);
// Raises this process's limit of descriptors to the hard limit. Returns the previous limit, which
// ranks keep. Throws if that is less than `wanted`, or if a rank could not have one of number
// `highest`.
rlimit raise_descriptor_limit(int wanted, int ranks, int highest);

}  // namespace dl::launcher
