// The process of a rank on this machine. Its end is noticed even if a child that it has forked
// keeps its sockets open. Any thread.
#pragma once

#include <string>

#include "collectives/call/identity.h"
#include "core/base/system/unique_fd.h"

namespace dl::collectives {

// Identifies the running kernel: it differs on another machine and after a reboot. Empty if /proc
// cannot be read.
std::string boot_id();

// Identifies this process by boot, pid namespace and start time, because a pid may be reused or
// belong to another namespace. Empty if /proc cannot be read.
std::string process_mark();

// A descriptor that becomes readable when the rank's process ends (pidfd_open(2)). Empty for this
// process itself, for a process on another host or in another pid namespace, and for a process that
// has ended.
UniqueFd watch_process(const Identity& who);

// True if the rank's process was visible here and has ended.
bool has_ended(const Identity& who);

// "group 'world' belongs to rank 1 (...), and this process (pid 4712) is a child that it forked;
// ..."
std::string text_of_forked_child(const std::string& group, const Identity& owner);

}  // namespace dl::collectives
