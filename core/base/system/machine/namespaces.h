// The namespaces that this process shares with other processes of its host, or does not, as in a
// container. Any thread.
#pragma once

#include <string>

namespace dl {

// Identifies the network namespace: within one, processes reach each other over loopback and by
// abstract Unix sockets. Empty if /proc cannot be read.
std::string network_namespace();

// The effective user as the host numbers users: two user namespaces may each have a user 1000, and
// these are different users. A user namespace inside another one is resolved by one level.
std::string user_on_host();

// True in a PID namespace of a container's, whose processes do not see those of the host. False if
// /proc cannot be read.
bool is_in_own_pid_namespace() noexcept;

}  // namespace dl
