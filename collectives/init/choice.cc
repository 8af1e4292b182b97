#include "collectives/init/choice.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "collectives/hybrid/route/places.h"
#include "collectives/init/init.h"
#include "collectives/mpi/module/library.h"
#include "collectives/nccl/library/choice.h"
#include "collectives/process/peer_process.h"
#include "collectives/shm/shm_group.h"
#include "collectives/waiting/group_error.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/system/machine/namespaces.h"
#include "core/base/version.h"

namespace dl::collectives {
namespace {

// Removes the first word of the text.
std::string take_word(std::string_view& text) {
  const std::string word(text.substr(0, text.find(' ')));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

bool share_a_network(std::span<const Offer> offers) {
  const Offer& first = offers.front();
  return std::ranges::all_of(offers, [&](const Offer& other) {
    return other.kernel == first.kernel && other.network == first.network;
  });
}

// Why ranks with the same `node` cannot share memory; empty if they can.
std::string obstacle_of(std::span<const Offer> offers, const hybrid::Places& places) {
  const auto offer = [&](int rank) -> const Offer& {
    return offers[static_cast<std::size_t>(rank)];
  };
  for (const std::vector<int>& ranks : places.nodes) {
    if (ranks.size() == 1) continue;
    const Offer& first = offer(ranks.front());
    for (const int rank : ranks) {
      const Offer& other = offer(rank);
      const auto differs = [&](std::string_view how) {
        return fmt::format("{} {} than {}", other.who.text(), how, first.who.text());
      };
      if (other.kernel != first.kernel) return differs("runs on another machine");
      if (other.network != first.network) return differs("is in another network namespace");
      if (other.user != first.user) return differs("runs as another user");
    }
    for (const int rank : ranks) {
      const Offer& other = offer(rank);
      if (!other.lacks.empty()) return fmt::format("{}: {}", other.who.text(), other.lacks);
    }
  }
  return {};
}

bool is_known(std::string_view backend) noexcept {
  constexpr std::string_view kKnown[] = {"auto", "tcp", "shm", "hybrid", "mpi", "nccl"};
  return std::find(std::begin(kKnown), std::end(kKnown), backend) != std::end(kKnown);
}

void check_backend(std::string_view asked) {
  DL_CHECK(is_known(asked), kInvalidArgument,
           "backend is '{}', wanted auto, tcp, shm, hybrid, mpi or nccl", asked);
}

}  // namespace

std::string Offer::text() const {
  return fmt::format("{} {} {} {} {}", asked, kernel, network, user, lacks);
}

Offer Offer::parse(std::string_view text, Identity from) {
  Offer offer{.who = std::move(from)};
  offer.asked = take_word(text);
  offer.kernel = take_word(text);
  offer.network = take_word(text);
  offer.user = take_word(text);
  offer.lacks = text;
  return offer;
}

std::string backend_for(const std::string& asked, const std::string& algorithm) {
  check_backend(asked);
  if (algorithm.empty()) return asked;
  DL_CHECK(asked == "auto" || asked == "tcp" || asked == "mpi", kInvalidArgument,
           "algorithm '{}' was asked for, and backend {} leaves no choice; wanted tcp or mpi",
           algorithm, asked);
  return asked == "auto" ? "tcp" : asked;
}

Decision decide(std::span<const Offer> offers) {
  const Offer& first = offers.front();
  std::vector<std::string> nodes;
  for (const Offer& offer : offers) {
    if (offer.asked != first.asked) {
      throw_mismatch(offer.who.in_job(),
                     "{} was asked for the backend {}, {} for {}; give all ranks the same",
                     offer.who.text(), offer.asked, first.who.text(), first.asked);
    }
    nodes.push_back(offer.who.node);
  }
  const hybrid::Places places = hybrid::places_of(nodes);
  const bool is_one_node = places.nodes.size() == 1;
  const bool leaves_host = !is_one_node || !share_a_network(offers);
  if (first.asked == "tcp") return {.leaves_host = leaves_host};
  if (first.asked == "shm" && !is_one_node) {
    const auto elsewhere = static_cast<std::size_t>(places.nodes[1].front());
    throw_error(ErrorKind::kConnection,
                "backend shm: {} is on another node than {}; memory is shared within a node only, "
                "use the backend hybrid or tcp",
                offers[elsewhere].who.text(), first.who.text());
  }
  const bool may_share = places.nodes.size() < offers.size();
  if (first.asked == "auto" && !may_share) return {.leaves_host = leaves_host};
  std::string obstacle = obstacle_of(offers, places);
  if (obstacle.empty()) {
    return {.backend = is_one_node && first.asked != "hybrid" ? "shm" : "hybrid",
            .leaves_host = leaves_host};
  }
  DL_CHECK(first.asked == "auto", kConnection,
           "backend {}: {}; let dlrun choose (auto), or use the backend tcp", first.asked,
           obstacle);
  return {.leaves_host = leaves_host, .obstacle = std::move(obstacle)};
}

Choice choose_backend(const GroupOptions& how, const std::string& asked, const std::string& address,
                      Deadline deadline) {
  const RosterOptions roster = roster_of(how, "backend/" + how.name);
  Choice choice;
  Offer own{.who = this_process(how),
            .asked = asked,
            .kernel = boot_id(),
            .network = network_namespace(),
            .user = user_on_host()};
  if (asked != "tcp") {
    try {
      choice.segment = how.segment ? how.segment : reserve_shm_segment();
    } catch (const Error& error) {
      own.lacks = error.what();
      std::replace(own.lacks.begin(), own.lacks.end(), '\n', ' ');
    }
  }
  const Record record{.version = kProtocolVersion,
                      .size = roster.size,
                      .generation = how.generation,
                      .address = address,
                      .offer = own.text(),
                      .who = own.who};
  publish(roster, record, deadline);
  std::vector<Offer> offers;
  for (int r = 0; r < roster.size; ++r) {
    choice.records.push_back(r == roster.rank ? record : await_record(roster, record, r, deadline));
    offers.push_back(Offer::parse(choice.records.back().offer, choice.records.back().who));
  }
  const Decision decision = decide(offers);
  choice.backend = decision.backend;
  choice.leaves_host = decision.leaves_host;
  if (choice.backend == "tcp") choice.segment = nullptr;
  if (!decision.obstacle.empty() && roster.rank == 0) {
    log::warning(
        "group '{}': ranks that share a node do not share memory, as {}; all talk over TCP",
        roster.group, decision.obstacle);
  }
  return choice;
}

}  // namespace dl::collectives

namespace dl {

bool is_backend_available(std::string_view backend) noexcept {
  if (backend == "mpi") return collectives::mpi::has_module();
  if (backend != "nccl") return collectives::is_known(backend);
  try {
    collectives::nccl::open_module();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace dl
