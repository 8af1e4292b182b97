// UniqueId: 128 bytes by which the ranks of a new group find rank 0, without a store.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "rendezvous/net/handshake/job_key.h"

namespace dl {

// The addresses and the port of rank 0, and a fresh secret: what knows the id can join the group.
struct UniqueId {
  std::array<std::uint8_t, 128> bytes{};
};

// For the process that will be rank 0: it listens from now on, and answers when it makes the group.
// An id is for one group. `iface`: as in MakeGroupOptions. The addresses are those at which other
// hosts reach this one, as many as fit, or loopback if there is no other. Throws kNotFound for an
// unknown interface, and kConnection if this process cannot listen.
UniqueId make_unique_id(const std::string& iface = {});

namespace rendezvous {
class Address;
class Listener;
}  // namespace rendezvous

namespace collectives::meet {

class Exchange;
struct ExchangeOptions;

// A listener, and the addresses at which others may reach it.
struct Reachable {
  std::unique_ptr<rendezvous::Listener> listener;
  std::vector<rendezvous::Address> addresses;
};
Reachable listen_for_hosts(const std::string& iface);

// The secret in the id. Throws kInvalidArgument if these bytes are no id.
rendezvous::JobKey key_of(const UniqueId& id);
// Stops listening for it; does nothing if another process has made it. Throws as key_of().
void forget_id(const UniqueId& id);
// 256 hexadecimal digits, and the id of such a text.
std::string to_hex(const UniqueId& id);
UniqueId id_of_hex(const std::string& text);

// Rank 0 becomes the host of the exchange, and must be the process that made the id; other ranks
// become guests. Throws kInvalidArgument, kTimeout, kConnection if rank 0 listens no more, and what
// the handshake throws.
std::unique_ptr<Exchange> meet_by_id(const UniqueId& id, ExchangeOptions options,
                                     Deadline deadline);

}  // namespace collectives::meet
}  // namespace dl
