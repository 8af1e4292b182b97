#include "rendezvous/program/bridge/service_way.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "core/base/error.h"
#include "rendezvous/net/connect/connect.h"
#include "rendezvous/net/connect/race.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/socket/socket.h"
#include "rendezvous/program/endpoint.h"

namespace dl::rendezvous {
namespace {

// Shorter than the first warning (kWarnAfter), so that warnings are reported to dlrun in JSON.
constexpr std::chrono::seconds kConnectTurn{4};

}  // namespace

ServiceWay::ServiceWay(const BridgeOptions& options, BridgeOutput& output)
    : options_(options), output_(output), endpoint_(options.endpoint) {
  if (options.other_endpoints.empty()) return;
  given_ = options.other_endpoints;
  given_.insert(given_.begin(), options.endpoint);
}

Connection ServiceWay::connect(const Hello& hello, Deadline deadline) {
  Connection connection = connect_in_turns(hello, deadline);
  service_address_ = peer_address(connection.fd.get()).host();
  own_address_ = local_address(connection.fd.get()).host();
  return connection;
}

Connection ServiceWay::connect_in_turns(const Hello& hello, Deadline deadline) {
  Patience patience;
  for (;;) {
    try {
      const Deadline turn = patience.until(Deadline::after(kConnectTurn));
      const std::vector<Endpoint> ways =
          given_.empty() ? ways_to(endpoint_, Deadline::earlier(deadline, turn)) : given_;
      if (ways.size() > 1) return connect_by_a_way(ways, hello, Deadline::earlier(deadline, turn));
      return connect_and_prove(endpoint_, hello, options_.key, Deadline::earlier(deadline, turn),
                               {.hangup_fd = options_.in,
                                .is_turn = turn.left() < deadline.left(),
                                .goal = "the rendezvous"});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout || deadline.has_passed()) {
        throw_error(error.kind(), "{}{}", error.what(),
                    wrong_host_text(endpoint_, options_.serves));
      }
    }
    if (patience.should_warn()) {
      dlrun::rendezvous::ToNode message;
      dlrun::rendezvous::Waiting* waiting = message.mutable_waiting();
      waiting->set_what("the rendezvous");
      waiting->set_seconds(static_cast<int>(patience.waited().count()));
      waiting->add_missing(endpoint_.text() + wrong_host_text(endpoint_, options_.serves));
      output_.put(message);
    }
  }
}

// If dlrun gave the addresses, sets endpoint_ to the one at which this node reaches the
// service.
Connection ServiceWay::connect_by_a_way(const std::vector<Endpoint>& ways, const Hello& hello,
                                        Deadline deadline) {
  Way way = rendezvous::connect_by_a_way(
      ways, /*rank=*/-1,
      given_.empty() ? fmt::format("the rendezvous at {}", endpoint_.text()) : "the rendezvous",
      hello, options_.key, deadline);
  if (given_.empty()) return std::move(way.connection);
  endpoint_ = std::move(way.endpoint);
  return std::move(way.connection);
}

}  // namespace dl::rendezvous
