// Starting dlrun-rendezvous, which stands beside dlrun, as a helper of the warden.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/unique_fd.h"
#include "launcher/output/node_output.h"
#include "launcher/process/warden_client.h"

namespace dl::launcher {

inline constexpr const char* kRendezvousName = "dlrun-rendezvous";
// The numbers of the descriptors that it inherits.
inline constexpr int kRendezvousKeyFd = 190;
inline constexpr int kRendezvousListenerFd = 192;

struct RendezvousStart {
  std::vector<std::string> arguments;
  UniqueFd in;  // its standard input
  UniqueFd out;
  UniqueFd listener;  // none: it gets no descriptor kRendezvousListenerFd
};

// What it writes to its standard error comes out with the ranks' output. Returns its slot.
std::uint32_t start_rendezvous(WardenClient& warden, NodeOutput& output, const UniqueFd& key,
                               RendezvousStart start, std::function<void(const Message&)> on_news);

// "was killed by signal 9 (SIGKILL)", "could not be started: ...", of kExited or kNotStarted.
std::string how_helper_ended(const Message& news);

}  // namespace dl::launcher
