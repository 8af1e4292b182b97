// MASTER_PORT of a job on several nodes, kept from before the nodes meet until PyTorch's store
// listens there: all nodes learn of the port in the meeting, so that it cannot be replaced after
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/unique_fd.h"
#include "launcher/plan/plan.h"
#include "rendezvous/net/socket.h"

namespace dl::launcher {

class StorePort {
 public:
  // Keeps all other programs from listening at the port, on every interface. nullopt: one does.
  static std::optional<StorePort> hold(std::uint16_t port);

  std::uint16_t port() const noexcept { return port_; }
  // A listener at `host`'s address alone. The port belongs to it when this object is gone. Throws
  // kNotFound if no network interface of this host has the address, kConnection.
  rendezvous::Listener listen_at(const std::string& host, int backlog) const;

 private:
  std::uint16_t port_ = 0;
  UniqueFd ipv4_;
  UniqueFd ipv6_;
};

// Holds `port` for the node that will serve the store, or, if it is taken and the user did not give
// it, another one, which replaces it. nullopt if the user's port is taken.
std::optional<StorePort> hold_store_port(const NodePlan& plan, int& port);

}  // namespace dl::launcher
