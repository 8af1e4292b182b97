#include "launcher/torch_store/serve.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/base/error.h"
#include "launcher/plan/machine/this_host.h"
#include "rendezvous/net/socket/address.h"

namespace dl::launcher {
namespace {

using rendezvous::Address;
using rendezvous::Listener;

constexpr int kBacklog = 4096;  // all ranks come at once
constexpr std::chrono::seconds kTimeToLookUp{10};

Listener listen_on_one_node(const NodePlan& plan, Meeting& meeting) {
  constexpr int kTries = 100;
  for (int i = 0;; ++i) {
    try {
      return Listener::bind({.host = meeting.master_addr,
                             .port = static_cast<std::uint16_t>(meeting.master_port),
                             .backlog = kBacklog});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConnection || plan.job.master_port || i == kTries) throw;
    }
    meeting.master_port = choose_port();
  }
}

// The addresses of this node at which ranks of several nodes may look for MASTER_ADDR: its own, and
// those at which the nodes have met. If MASTER_ADDR leads to this host itself only (Debian maps a
// host's own name to 127.0.1.1), other nodes know it by an address that this node cannot tell: then
// all addresses.
std::vector<Address> addresses_of_store(const Meeting& meeting) {
  std::vector<Address> addresses;
  const auto add = [&addresses](const Address& address) {
    const bool is_new = std::none_of(addresses.begin(), addresses.end(), [&](const Address& other) {
      return other.host() == address.host();
    });
    if (is_new && rendezvous::is_of_this_host(address)) addresses.push_back(address);
  };
  bool may_be_any = false;
  for (Address address :
       rendezvous::resolve({meeting.master_addr, 0}, rendezvous::Deadline::after(kTimeToLookUp))) {
    may_be_any |= address.is_any() || address.is_loopback();
    if (address.is_any()) {
      const char* const loopback = address.family() == AF_INET6 ? "::1" : "127.0.0.1";
      address = rendezvous::resolve({loopback, 0}, rendezvous::Deadline::never()).front();
    }
    add(address);
  }
  for (const std::string& met : meeting.met_at) {
    try {
      add(rendezvous::resolve({met, 0}, rendezvous::Deadline::after(std::chrono::seconds(0)))
              .front());
    } catch (const Error&) {
      continue;  // a name, or an address with an interface of another host
    }
  }
  if (may_be_any) {
    for (const Address& address : rendezvous::host_addresses()) add(address);
  }
  DL_CHECK(!addresses.empty(), kNotFound,
           "MASTER_ADDR is {}, and no network interface of this host has that address",
           meeting.master_addr);
  return addresses;
}

std::vector<Listener> listen_for(const NodePlan& plan, Meeting& meeting,
                                 const std::optional<StorePort>& held) {
  std::vector<Listener> listeners;
  if (plan.job.nnodes == 1) {
    listeners.push_back(listen_on_one_node(plan, meeting));
    return listeners;
  }
  const auto port = static_cast<std::uint16_t>(meeting.master_port);
  for (const Address& address : addresses_of_store(meeting)) {
    try {
      listeners.push_back(
          held && held->port() == port
              ? held->listen_at(address, kBacklog)
              : Listener::bind({.host = address.host(), .port = port, .backlog = kBacklog}));
    } catch (const Error& error) {
      // Gone, or not ready yet (IPv6).
      if (error.kind() != ErrorKind::kNotFound) throw;
    }
  }
  DL_CHECK(!listeners.empty(), kNotFound, "no address of {} can be listened on",
           meeting.master_addr);
  return listeners;
}

}  // namespace

std::unique_ptr<TorchStore> serve_torch_store(boost::asio::io_context& io, const NodePlan& plan,
                                              Meeting& meeting,
                                              const std::optional<StorePort>& held,
                                              const std::function<void(const std::string&)>& say) {
  meeting.torch_store = plan.wants_torch_store;
  if (!meeting.torch_store || meeting.group_rank != 0) return nullptr;
  try {
    return std::make_unique<TorchStore>(
        io, listen_for(plan, meeting, held),
        TorchStoreOptions{.most_connections = connections_for(meeting.world_size), .say = say});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) {
      throw_error(error.kind(), "PyTorch's store at MASTER_PORT: {}", error.what());
    }
    meeting.torch_store = false;
    say(fmt::format("rank 0 serves PyTorch's store, not dlrun: {}", error.what()));
    return nullptr;
  }
}

}  // namespace dl::launcher
