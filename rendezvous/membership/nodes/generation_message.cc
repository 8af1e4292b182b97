#include "rendezvous/membership/nodes/generation_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "rendezvous/membership/nodes/node_address.h"
#include "rendezvous/membership/nodes/same_job.h"
#include "rendezvous/net/socket/address.h"

namespace dl::rendezvous {

namespace pb = dlrun::rendezvous;

void send_generation(const NodeTable& nodes, const NodeTable::Ids& joined, int number,
                     const pb::Join& job, std::uint16_t moves_to, Outbox& out) {
  Joins all;
  for (const NodeTable::Id id : joined) all.push_back(&nodes.at(id).facts);
  pb::Generation common;
  common.set_number(number);
  common.set_group_world_size(static_cast<int>(nodes.members().size()));
  common.set_rank_by(job.rank_by());
  int world_size = 0;
  for (const NodeTable::Id id : nodes.members()) {
    const Node& node = nodes.at(id);
    pb::Generation::Member* member = common.add_members();
    member->set_group_rank(node.group_rank);
    member->set_node_id(node.facts.node_id());
    member->set_host(node.facts.host());
    member->set_address(address_of(node.facts, all));
    member->set_slots(node.facts.slots());
    member->set_first_rank(node.ranks.front());
    member->set_pid(node.facts.pid());
    world_size += node.facts.slots();
    if (node.facts.mpi() == pb::Join::PMIX) common.set_mpi(pb::Join::PMIX);
  }
  common.set_world_size(world_size);
  const pb::Join& first = nodes.at(nodes.members().front()).facts;
  common.set_master_port(first.master_port());
  for (const NodeTable::Id id : nodes.members()) {
    const std::string address = address_for(nodes.at(id).facts, first, all);
    const auto& known = common.met_at();
    if (std::find(known.begin(), known.end(), address) == known.end()) common.add_met_at(address);
  }
  for (const NodeTable::Id id : nodes.members()) {
    const Node& node = nodes.at(id);
    Outgoing message{.to = id, .message = {}};
    pb::Generation& generation = *message.message.mutable_generation();
    generation = common;
    generation.set_group_rank(node.group_rank);
    generation.set_first_rank(node.ranks.front());
    generation.set_master_addr(address_for(node.facts, first, all));
    if (moves_to != 0) {
      generation.set_store(Endpoint{generation.master_addr(), moves_to}.text());
    }
    out.push_back(std::move(message));
  }
}

void warn_of_other_lines(const NodeTable& nodes, Outbox& out) {
  const Node& first = nodes.at(nodes.members().front());
  std::string shown;
  std::size_t others = 0;
  for (const NodeTable::Id id : nodes.members()) {
    const Node& node = nodes.at(id);
    if (!may_be_another_job(first.facts, node.facts)) continue;
    const std::string text =
        fmt::format("the nodes run different lines: {} `{}`, {} `{}`", first.name(),
                    quoted_line(first.facts), node.name(), quoted_line(node.facts));
    send_notice(id, text, out);
    if (others++ == 0) shown = text;
  }
  if (others == 0) return;
  send_notice(nodes.members().front(),
              others == 1 ? shown : fmt::format("{}; and {} more nodes", shown, others - 1), out);
}

}  // namespace dl::rendezvous
