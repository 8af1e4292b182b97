// The descriptors that connect a rank to dlrun. All are close-on-exec, and all functions throw kIo.
#pragma once

#include <sys/resource.h>

#include <string>

#include "core/base/system/unique_fd.h"

namespace dl::launcher {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
Pipe make_pipe();
UniqueFd duplicate(int fd);
UniqueFd open_null();

// Returns a descriptor that reads nothing, even if an image without device nodes has a file in
// place of /dev/null, with bytes that programs have written to it.
UniqueFd open_empty_input(const char* null = "/dev/null");

// Rank 0's standard input: dlrun's own. Empty if that is a terminal and dlrun runs in its
// background, because the input then belongs to the shell.
UniqueFd stdin_for_rank();

// A file in memory, without a name: it leaves nothing behind.
UniqueFd make_memory_file(const char* name);
// A path by which every process of this user finds a descriptor of this process.
std::string path_of_descriptor(int fd);

// Replaces the file. Returns the error, else "".
std::string write_file(const std::string& path, const std::string& text);
// The first MiB of the file; empty if it cannot be read.
std::string read_file(const std::string& path);

// Number of descriptors that dlrun needs for this many ranks.
int descriptors_for(int ranks, bool with_logs);
// The hard limit that raise_descriptor_limit() demands.
int least_descriptor_limit(int wanted, int highest);
// Raises this process's limit of descriptors to the hard limit. Returns the previous limit, which
// ranks keep. Throws if the hard limit is below `wanted`, or if a rank could not have a descriptor
// with the number `highest`.
rlimit raise_descriptor_limit(int wanted, int ranks, int highest);

}  // namespace dl::launcher
