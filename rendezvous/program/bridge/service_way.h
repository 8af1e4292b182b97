// ServiceWay: finds an address at which this node reaches the membership service, and connects to
// it.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "rendezvous/net/handshake/handshake.h"
#include "rendezvous/net/socket/address.h"
#include "rendezvous/program/bridge/bridge_options.h"
#include "rendezvous/program/bridge/bridge_output.h"

namespace dl::rendezvous {

class ServiceWay {
 public:
  // Writes a `waiting` message to `output` while the connection takes long.
  ServiceWay(const BridgeOptions& options, BridgeOutput& output);

  // Throws kAborted if dlrun dies meanwhile (the input is closed), and what connect_and_prove()
  // throws.
  Connection connect(const Hello& hello, Deadline deadline);

  // If dlrun gave several addresses: the one at which this node has reached the service.
  const Endpoint& endpoint() const { return endpoint_; }
  // Once connected: the address at which this node reaches the service, and this node's address on
  // that connection.
  const std::string& service_address() const { return service_address_; }
  const std::string& own_address() const { return own_address_; }

 private:
  Connection connect_in_turns(const Hello& hello, Deadline deadline);
  Connection connect_by_a_way(const std::vector<Endpoint>& ways, const Hello& hello,
                              Deadline deadline);

  const BridgeOptions& options_;
  BridgeOutput& output_;
  Endpoint endpoint_;
  std::vector<Endpoint> given_;  // several addresses of the service that dlrun gave
  std::string service_address_;
  std::string own_address_;
};

}  // namespace dl::rendezvous
