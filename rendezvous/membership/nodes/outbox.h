// Outbox: the messages that Membership sends to nodes, in order. Included by .cc files only,
// because the messages are Protobuf's.
#pragma once

#include <vector>

#include "rendezvous/membership/nodes/node_table.h"
#include "rendezvous/rendezvous.pb.h"

namespace dl::rendezvous {

struct Outgoing {
  NodeTable::Id to = 0;
  dlrun::rendezvous::ToNode message;
  bool last = false;  // the stream ends after it
};
using Outbox = std::vector<Outgoing>;

// Sends a message to each of these nodes.
template <typename Ids>
void send_to_all(const Ids& to, const dlrun::rendezvous::ToNode& message, Outbox& out) {
  for (const NodeTable::Id id : to) out.push_back({.to = id, .message = message});
}
// Sends one node a sentence that it shows to its user.
inline void send_notice(NodeTable::Id to, const std::string& text, Outbox& out) {
  Outgoing notice{.to = to, .message = {}};
  notice.message.mutable_notice()->set_text(text);
  out.push_back(std::move(notice));
}

}  // namespace dl::rendezvous
