#include "launcher/pmi/pmix/nodes/node_space.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

namespace dl::pmix {

using Kind = Note::Kind;

NodeSpace::NodeSpace(std::uint32_t node, std::uint32_t nodes, std::int32_t ended_status,
                     Events events)
    : node_(node), nodes_wanted_(nodes), ended_status_(ended_status), events_(std::move(events)) {}

std::uint32_t NodeSpace::node_of(std::uint32_t rank) const {
  const auto found = node_of_rank_.find(rank);
  return found == node_of_rank_.end() ? nodes_wanted_ : found->second;
}

void NodeSpace::write(Note note) {
  note.node = node_;
  events_.write(note);
}

void NodeSpace::enter(const Node& self) {
  write({.kind = Kind::kNode, .name = self.host, .ranks = self.ranks});
}

void NodeSpace::connected(std::uint32_t rank) {
  write({.kind = Kind::kConnected, .rank = rank});
}

void NodeSpace::ended(std::uint32_t rank) {
  write({.kind = Kind::kEnded, .rank = rank});
}

void NodeSpace::take(const Note& note) {
  switch (note.kind) {
    case Kind::kNode:
      take_node(note);
      return;
    case Kind::kConnected:
      connected_.insert(note.rank);
      events_.on_connected(note.rank);
      return;
    case Kind::kEnded:
      take_ended(note.rank);
      return;
    case Kind::kGather:
      take_gather(note);
      return;
    case Kind::kAsk:
      take_ask(note);
      return;
    case Kind::kAnswer:
      if (note.to != node_) return;
      if (const auto asked = asked_.find(note.number); asked != asked_.end()) {
        const Answer answer = std::move(asked->second.answer);
        asked_.erase(asked);
        answer(note.status, note.texts.empty() ? std::string() : note.texts.front());
      }
      return;
    case Kind::kPublish:
      take_publish(note);
      return;
    case Kind::kLookUp:
      take_look_up(note);
      return;
    case Kind::kUnpublish:
      names_.unpublish(note.rank, note.texts);
      if (const auto done = take_waiting(unpublishing_, note)) done();
      return;
  }
}

template <typename Function>
Function NodeSpace::take_waiting(std::map<std::uint64_t, Function>& waiting, const Note& note) {
  if (note.node != node_) return nullptr;
  const auto found = waiting.extract(note.number);
  return found.empty() ? nullptr : std::move(found.mapped());
}

void NodeSpace::take_node(const Note& note) {
  if (note.node >= nodes_wanted_) return;
  nodes_.try_emplace(note.node, Node{note.name, note.ranks});
  if (nodes_.size() < nodes_wanted_ || !node_of_rank_.empty()) return;
  std::map<std::string, int> times;
  for (const auto& [number, node] : nodes_) {
    ++times[node.host];
    for (const std::uint32_t rank : node.ranks) node_of_rank_.emplace(rank, number);
  }
  std::vector<Node> nodes;
  for (const auto& [number, node] : nodes_) {
    // Ranks with one host name would share memory, and two nodes of one host do not.
    nodes.push_back(times[node.host] == 1
                        ? node
                        : Node{fmt::format("{}-node{}", node.host, number), node.ranks});
  }
  events_.on_nodes(nodes);
}

// Gatherings.

void NodeSpace::gather(Gathering gathering, std::function<void(const Gathered&)> done) {
  const std::uint64_t number = ++own_gatherings_[gathering.name];
  gathering_here_.emplace(GatheringKey(gathering.name, number), std::move(done));
  write({.kind = Kind::kGather,
         .number = number,
         .flag = gathering.wants_number,
         .name = std::move(gathering.name),
         .ranks = std::move(gathering.ranks),
         .texts = {std::move(gathering.bytes)}});
}

void NodeSpace::take_gather(const Note& note) {
  if (note.texts.size() != 1) return;
  const auto at = gatherings_.try_emplace({note.name, note.number}).first;
  Parts& parts = at->second;
  parts.ranks = note.ranks;
  parts.wants_number = parts.wants_number || note.flag;
  parts.by_node.emplace(note.node, note.texts.front());
  if (is_complete(parts)) end_gathering(at);
}

bool NodeSpace::is_complete(const Parts& parts) const {
  const auto is_there = [&](std::uint32_t rank) {
    const bool has_left = ended_.contains(rank) && connected_.contains(rank);
    return has_left || parts.by_node.contains(node_of(rank));
  };
  if (!parts.ranks.empty()) return std::ranges::all_of(parts.ranks, is_there);
  return std::ranges::all_of(node_of_rank_,
                             [&](const auto& entry) { return is_there(entry.first); });
}

void NodeSpace::end_gathering(std::map<GatheringKey, Parts>::iterator at) {
  Gathered gathered;
  for (const auto& [node, bytes] : at->second.by_node) gathered.bytes += bytes;
  if (at->second.wants_number) gathered.number = ++last_number_;
  const auto here = gathering_here_.extract(at->first);
  gatherings_.erase(at);
  if (!here.empty()) here.mapped()(gathered);
}

void NodeSpace::take_ended(std::uint32_t rank) {
  if (!ended_.insert(rank).second) return;
  for (auto at = gatherings_.begin(); at != gatherings_.end();) {
    const auto next = std::next(at);
    if (is_complete(at->second)) end_gathering(at);
    at = next;
  }
  std::vector<Answer> unanswered;
  for (auto at = asked_.begin(); at != asked_.end();) {
    if (at->second.rank == rank) {
      unanswered.push_back(std::move(at->second.answer));
      at = asked_.erase(at);
    } else {
      ++at;
    }
  }
  for (const Answer& answer : unanswered) answer(ended_status_, {});
  if (!is_here(rank)) events_.on_ended(rank);
}

// Questions to the node of a rank.

void NodeSpace::ask(std::uint32_t rank, Answer answer) {
  const std::uint64_t number = ++last_question_;
  asked_.emplace(number, Question{rank, std::move(answer)});
  write({.kind = Kind::kAsk, .rank = rank, .number = number});
}

void NodeSpace::take_ask(const Note& note) {
  const auto answer = [this, to = note.node, number = note.number](std::int32_t status,
                                                                   const std::string& bytes) {
    write({.kind = Kind::kAnswer, .to = to, .number = number, .status = status, .texts = {bytes}});
  };
  const bool is_unknown = node_of(note.rank) == nodes_wanted_;
  if (ended_.contains(note.rank) || is_unknown) {
    if (note.node == node_) answer(ended_status_, {});
  } else if (is_here(note.rank)) {
    events_.on_asked(note.rank, answer);
  }
}

// Names.

void NodeSpace::publish(std::uint32_t rank, const NameBoard::Entries& entries,
                        std::function<void(bool)> done) {
  Note note{.kind = Kind::kPublish, .rank = rank, .number = ++last_question_};
  for (const auto& [name, entry] : entries) {
    note.flag = entry.is_for_one_reader;
    note.texts.push_back(name);
    note.texts.push_back(entry.value);
  }
  publishing_.emplace(note.number, std::move(done));
  write(std::move(note));
}

void NodeSpace::take_publish(const Note& note) {
  NameBoard::Entries entries;
  for (std::size_t i = 0; i + 1 < note.texts.size(); i += 2) {
    entries.insert_or_assign(note.texts[i],
                             NameBoard::Entry{note.rank, note.texts[i + 1], note.flag});
  }
  const bool is_new = names_.publish(entries);
  if (const auto done = take_waiting(publishing_, note)) done(is_new);
}

void NodeSpace::look_up(std::vector<std::string> names, bool waits,
                        std::function<void(const NameBoard::Entries&)> answer) {
  const std::uint64_t number = ++last_question_;
  looking_up_.emplace(number, std::move(answer));
  write({.kind = Kind::kLookUp, .number = number, .flag = waits, .texts = std::move(names)});
}

// Every node looks up, because a value for one reader is then gone.
void NodeSpace::take_look_up(const Note& note) {
  auto answer = take_waiting(looking_up_, note);
  if (!answer) answer = [](const NameBoard::Entries&) {};
  names_.look_up({.names = note.texts, .waits = note.flag, .answer = std::move(answer)});
}

void NodeSpace::unpublish(std::uint32_t rank, std::vector<std::string> names,
                          std::function<void()> done) {
  const std::uint64_t number = ++last_question_;
  unpublishing_.emplace(number, std::move(done));
  write({.kind = Kind::kUnpublish, .rank = rank, .number = number, .texts = std::move(names)});
}

}  // namespace dl::pmix
