// ServiceWay: finds a way from this node to the membership service, and connects to it.
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
  // `output` gets a message when the service keeps dlrun waiting.
  ServiceWay(const BridgeOptions& options, BridgeOutput& output);

  // Throws kAborted if dlrun, at the other end of the input, dies meanwhile.
  Connection connect(const Hello& hello, Deadline deadline);

  // If dlrun gave several addresses: the one at which this node has reached the service.
  const Endpoint& endpoint() const { return endpoint_; }
  // Once connected: the service's address, as this node reaches it, and this node's, from which it
  // does.
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
