// StorePort: holds MASTER_PORT of a job on several nodes from before the nodes meet until PyTorch's
// store listens there. All nodes learn the port in the meeting, so it cannot be replaced after
// that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/system/unique_fd.h"
#include "launcher/plan/plan.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::launcher {

class StorePort {
 public:
  // Prevents all other programs from listening at the port, on every interface. nullopt: a program
  // listens there already.
  static std::optional<StorePort> hold(std::uint16_t port);

  std::uint16_t port() const noexcept { return port_; }
  // Makes a listener at this address only. It alone has the port once this object is destroyed.
  // Throws kNotFound if no network interface of this host has the address, and kConnection.
  rendezvous::Listener listen_at(const rendezvous::Address& address, int backlog) const;

 private:
  std::uint16_t port_ = 0;
  UniqueFd ipv4_;
  UniqueFd ipv6_;
};

// Holds `port` for the node that will serve the store. If it is taken and the user did not give it,
// holds another port and sets `port`. nullopt: the user's port is taken.
std::optional<StorePort> hold_store_port(const NodePlan& plan, int& port);

}  // namespace dl::launcher
