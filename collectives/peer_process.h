// The process behind a rank of this machine, to notice its end although a child that it has forked
// still holds its sockets. Any thread.
#pragma once

#include <string>

#include "collectives/identity.h"
#include "core/base/unique_fd.h"

namespace dl::collectives {

// Names the running kernel: another machine, or a later boot, has another. Empty if /proc cannot be
// read.
std::string boot_id();

// Names this process among all of its machine: boot, pid namespace and start time, as a pid alone
// may be another process's later, or elsewhere. Empty if /proc cannot be read.
std::string process_mark();

// A descriptor that becomes readable when the rank's process ends (pidfd_open(2)). None for this
// process itself, for one that cannot be seen from here (another host, another pid namespace), and
// for one that has ended.
UniqueFd watch_process(const Identity& who);

// The rank's process was one that can be seen from here, and is no more.
bool has_ended(const Identity& who);

// "group 'world' belongs to rank 1 (...), and this process (pid 4712) is a child that it forked;
// ..."
std::string text_of_forked_child(const std::string& group, const Identity& owner);

}  // namespace dl::collectives
