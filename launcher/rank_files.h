// The descriptors that connect a rank to dlrun. All are close-on-exec; everything throws kIo.
#pragma once

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

// Reads nothing at all, also where an image without device nodes holds a file in /dev/null's place,
// with what programs have written to it.
UniqueFd open_empty_input(const char* null = "/dev/null");

// Rank 0 reads what dlrun was given; nothing where that is a terminal and dlrun runs in its
// background, whose input belongs to the shell.
UniqueFd stdin_for_rank();

// A file that has no name and leaves nothing behind.
UniqueFd make_memory_file(const char* name);
// A path under which every process of this user finds a descriptor of this one.
std::string path_of_descriptor(int fd);

// DIR/<rank>/<file>, its folders made.
std::string log_path(const std::string& folder, int rank, const char* file);
// Emptied where it exists.
UniqueFd create_file(const std::string& path);
// Nothing happens where it does not exist.
void remove_file(const std::string& path);
// Its first MiB; nothing where it cannot be read.
std::string read_file(const std::string& path);

// Throws where a rank could not have a descriptor of this number.
void require_descriptor(int highest);
// As many descriptors as the system allows this process: four a rank are needed. Ranks keep the
// limit that dlrun was started with.
void raise_descriptor_limit();

}  // namespace dl::launcher
