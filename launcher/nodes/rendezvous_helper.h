// Starts dlrun-rendezvous, which is in the folder of dlrun, as a helper of the warden.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "launcher/output/node_output.h"
#include "launcher/process/warden/warden_client.h"

namespace dl::launcher {

inline constexpr const char* kRendezvousName = "dlrun-rendezvous";
// Numbers of the descriptors that the helper inherits.
inline constexpr int kRendezvousKeyFd = 190;
inline constexpr int kRendezvousListenerFd = 192;

struct RendezvousStart {
  std::vector<std::string> arguments;
  UniqueFd in;  // its standard input
  UniqueFd out;
  UniqueFd listener;  // empty: the helper gets no kRendezvousListenerFd
};

// Returns its slot. Its standard error appears with the ranks' output.
std::uint32_t start_rendezvous(WardenClient& warden, NodeOutput& output, const UniqueFd& key,
                               RendezvousStart start, std::function<void(const Message&)> on_news);

}  // namespace dl::launcher
