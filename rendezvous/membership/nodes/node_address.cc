#include "rendezvous/membership/nodes/node_address.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "rendezvous/net/socket/address.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;

bool is_loopback(const std::string& address) {
  try {
    return resolve({address, 0}, Deadline::after(std::chrono::seconds(0))).front().is_loopback();
  } catch (const Error&) {
    // A name, or nothing: the node itself must resolve it.
    return false;
  }
}

// "fe80::1%eth0" without the interface, whose name differs from host to host.
std::string_view without_interface(std::string_view address) {
  return address.substr(0, address.find('%'));
}

// `node` serves. Returns the address of `node` at which `from` has reached the service, as `node`
// writes it. Empty if `node` does not have that address: it then forwards packets, but only those
// to the endpoint's port. A node that does not tell its addresses counts as having every address.
std::string met_at(const pb::Join& from, const pb::Join& node) {
  const std::string& seen = from.service_address();
  if (seen.empty() || is_loopback(seen)) return {};
  const auto& own = node.host_addresses();
  if (own.empty()) return seen;
  const auto found = std::find_if(own.begin(), own.end(), [&](const std::string& each) {
    return without_interface(each) == without_interface(seen);
  });
  return found == own.end() ? std::string() : *found;
}

// Smaller is better: programs put the address into a URL without brackets.
int awkwardness(std::string_view address) {
  if (address.find(':') == std::string_view::npos) return 0;
  return address.find('%') == std::string_view::npos ? 1 : 2;
}

}  // namespace

// A node on the service's host may know itself by an address that others cannot reach: a loopback
// address (Debian's /etc/hosts maps the host's name to 127.0.1.1), or an address of another
// network. A better one is the address at which other nodes have reached the service.
std::string address_of(const pb::Join& facts, const Joins& all) {
  const bool is_at_service = facts.serves() || is_loopback(facts.address());
  if (facts.is_address_given() || !is_at_service) return facts.address();
  std::vector<std::string> met;
  bool has_others = false;
  for (const pb::Join* const other : all) {
    if (other == &facts || other->service_address().empty()) continue;
    has_others |= !is_loopback(other->service_address());
    if (std::string at = met_at(*other, facts); !at.empty()) met.push_back(std::move(at));
  }
  if (!met.empty()) {
    return *std::min_element(met.begin(), met.end(), [](const auto& a, const auto& b) {
      return awkwardness(a) < awkwardness(b);
    });
  }
  if (has_others && is_loopback(facts.address()) && facts.host_addresses_size() > 0) {
    return facts.host_addresses(0);
  }
  return facts.address();
}

std::string address_for(const pb::Join& from, const pb::Join& node, const Joins& all) {
  const bool may_differ = node.serves() && !node.is_address_given();
  if (may_differ && &from != &node && !met_at(from, node).empty()) return from.service_address();
  return address_of(node, all);
}

}  // namespace dl::rendezvous
