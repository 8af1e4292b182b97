#include <nlohmann/json.hpp>

#include "launcher/autopsy/autopsy.h"
#include "launcher/autopsy/diagnosis.h"

namespace dl::launcher::autopsy {
namespace {

using collectives::record::GroupFacts;
using collectives::record::Operation;
using collectives::record::RankFacts;
using collectives::record::State;
using nlohmann::json;

const char* name_of(State state) noexcept {
  switch (state) {
    case State::kEnqueued:
      return "enqueued";
    case State::kStarted:
      return "started";
    case State::kFinished:
      return "finished";
    case State::kFailed:
      return "failed";
    default:
      return "writing";
  }
}

json or_null(const std::optional<double>& seconds) {
  return seconds ? json(*seconds) : json();
}

json of(const Operation& o) {
  json made = {{"op", o.op},
               {"sequence", o.sequence},
               {"dtype", o.dtype},
               {"count", o.count},
               {"reduce", o.reduce},
               {"state", name_of(o.state)},
               {"algorithm", o.algorithm},
               {"enqueued_s_ago", or_null(o.enqueued)},
               {"started_s_ago", or_null(o.started)},
               {"ended_s_ago", or_null(o.ended)}};
  if (o.is_message) {
    made["tag"] = static_cast<std::uint32_t>(o.root);
    made["peer"] = o.waits_for;
  } else {
    made["root"] = o.root;
    if (o.waits_for >= 0) made["waits_for"] = o.waits_for;
  }
  return made;
}

json of(const GroupFacts& g, const RankFacts& rank) {
  json operations = json::array();
  for (const Operation& o : rank.operations) {
    if (o.group == (g.number & 0xffff)) operations.push_back(of(o));
  }
  json made = {{"name", g.name},
               {"generation", g.generation},
               {"backend", g.backend},
               {"rank", g.rank},
               {"size", g.size},
               {"last_called", g.last_called},
               {"operations", std::move(operations)}};
  if (!g.kind.empty()) made["error"] = {{"kind", g.kind}, {"text", g.cause}};
  return made;
}

json of(const RankFacts& rank) {
  json groups = json::array();
  for (const GroupFacts& g : rank.groups) groups.push_back(of(g, rank));
  return {{"rank", rank.rank},
          {"host", rank.host},
          {"pid", rank.pid},
          {"fate", fate(rank)},
          {"is_first_cause", rank.is_cause},
          {"opened", rank.opened},
          {"copied_at_ns", rank.copied_at_ns},
          {"torn", rank.torn},
          {"dropped", rank.dropped},
          {"truncated", rank.truncated},
          {"groups", std::move(groups)}};
}

}  // namespace

std::string json(const Case& from) {
  const Diagnosis diagnosis = diagnose(from);
  nlohmann::json waits = nlohmann::json::array();
  for (const Membership& m : diagnosis.members) {
    if (m.waits_for.empty()) continue;
    waits.push_back({{"rank", m.rank->rank},
                     {"group", m.group->name},
                     {"operation", text(*m.current)},
                     {"waits_for", m.waits_for}});
  }
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankFacts& rank : from.ranks) ranks.push_back(of(rank));
  nlohmann::json unusable = nlohmann::json::array();
  for (const Unusable& file : from.unusable) {
    unusable.push_back({{"file", file.what}, {"why", file.why}});
  }
  const nlohmann::json page = {{"finding",
                                {{"kind", name_of(diagnosis.finding.kind)},
                                 {"ranks", diagnosis.finding.culprits},
                                 {"text", diagnosis.finding.lines}}},
                               {"world_size", from.world_size()},
                               {"waits", std::move(waits)},
                               {"ranks", std::move(ranks)},
                               {"absent", from.absent()},
                               {"unusable", std::move(unusable)}};
  // ASCII only, so that no name controls a terminal: U+0080 to U+009F are control characters, too.
  // Bytes that are not UTF-8 become U+FFFD.
  return page.dump(2, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

}  // namespace dl::launcher::autopsy
