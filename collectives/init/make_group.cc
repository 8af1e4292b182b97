#include "collectives/init/make_group.h"

#include <algorithm>

#include "collectives/call/recording.h"
#include "collectives/hybrid/group.h"
#include "collectives/init/choice.h"
#include "collectives/init/launch.h"
#include "collectives/join/meet/exchange.h"
#include "collectives/join/roster.h"
#include "collectives/shm/shm_group.h"
#include "collectives/solo/solo_group.h"
#include "collectives/tcp/tcp_group.h"
#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/system/process/stopped.h"
#include "rendezvous/stores/prefix_store.h"

namespace dl {
namespace collectives {

Ref<ProcessGroup> connect_group(GroupOptions how, const std::string& asked,
                                const std::function<void(int)>& begin_round) {
  const Deadline deadline = connect_deadline(how);
  const Choice choice = choose_backend({.store = how.store,
                                        .place = "backend/" + how.name,
                                        .group = how.name,
                                        .rank = how.rank,
                                        .size = how.size,
                                        .timeout = how.connect_timeout,
                                        .all_announced = how.all_announced},
                                       asked, how.node, how.generation, deadline);
  how.segment = choice.segment;
  how.leaves_host = choice.leaves_host;
  begin_round(1);
  if (choice.backend == "shm") return make_shm_group(how);
  if (choice.backend == "hybrid") {
    if (!how.engine) how.engine = make_tcp_engine();
    Ref<ProcessGroup> group = hybrid::make_group(how, [&](int round) { begin_round(1 + round); });
    begin_round(1 + hybrid::kRounds);  // ranks without an inner group take part in its round
    return group;
  }
  return make_tcp_group(how);
}

namespace {

// The id of rank 0, over the caller's store.
UniqueId pass_id(const MakeGroupOptions& options, const std::string& iface, Deadline deadline) {
  rendezvous::PrefixStore store(*options.store, "dlrun/" + options.name + "/");
  if (options.rank == 0) {
    const UniqueId id = make_unique_id(iface);
    store.set("id", meet::to_hex(id), deadline);
    return id;
  }
  const RosterOptions roster{.store = &store,
                             .group = options.name,
                             .rank = options.rank,
                             .size = options.size,
                             .timeout = options.timeout};
  const std::string text = await_value(roster, this_process(options.rank, {}), "id", 0, deadline);
  return meet::id_of_hex(text);
}

void check_options(const MakeGroupOptions& options) {
  check_backend(options.backend);
  DL_CHECK(options.backend != "mpi" && options.backend != "nccl", kInvalidArgument,
           "make_group: backend '{}' cannot be made over a store, wanted auto, shm, tcp or hybrid",
           options.backend);
  check_group_name(options.name);
  DL_CHECK(options.size > 0 && options.rank >= 0 && options.rank < options.size, kInvalidArgument,
           "make_group: rank {} of {} ranks", options.rank, options.size);
  DL_CHECK(!options.id || options.store == nullptr, kInvalidArgument,
           "make_group: there are an id and a store, wanted one of them");
  DL_CHECK(options.size == 1 || options.id || options.store != nullptr, kInvalidArgument,
           "make_group: there is no id and no store");
}

}  // namespace
}  // namespace collectives

Ref<collectives::ProcessGroup> make_group(const MakeGroupOptions& options) {
  using namespace collectives;
  check_options(options);
  if (options.size == 1) {
    if (options.id) meet::forget_id(*options.id);
    return make_solo_group(options.name);
  }
  watch_for_stops();
  open_missing_standard_streams();  // otherwise one of our sockets could get the program's output

  const Deadline deadline = Deadline::after(options.timeout);
  const JobPlace place = find_job_place();
  const std::string iface = options.iface.empty() ? place.iface : options.iface;
  // In a job of dlrun the ranks have numbers of its own, which its agents know.
  const Launch launch =
      place.is_in_job ? find_launch({}, {}) : find_launch(options.rank, options.size);
  GroupOptions how{.rank = options.rank,
                   .size = options.size,
                   .name = options.name,
                   .job = place.job,
                   .generation = place.generation,
                   .timeout = options.timeout,
                   .connect_timeout = options.timeout,
                   .connect_by = deadline,
                   .node = place.node,
                   .recorder = open_recorder(launch.rank, launch.world_size, place.generation),
                   .job_rank = place.is_in_job ? launch.rank : -1,
                   .iface = iface,
                   .plan = find_plan(options.plan, options.algorithm)};
  const UniqueId id = options.id ? *options.id : pass_id(options, iface, deadline);
  how.key = options.key ? *options.key : meet::key_of(id);
  const auto exchange = meet::meet_by_id(id,
                                         {.group = options.name,
                                          .rank = options.rank,
                                          .size = options.size,
                                          .timeout = options.timeout,
                                          .key = *how.key,
                                          .hello = {.job = place.job,
                                                    .generation = place.generation,
                                                    .purpose = "meet/" + options.name,
                                                    .from = this_process(how).text(),
                                                    .rank = options.rank}},
                                         deadline);
  meet::ExchangeStore store(*exchange, options.name);
  how.store = &store;
  Ref<ProcessGroup> group =
      connect_group(how, options.backend, [&](int round) { store.begin_round(round, deadline); });
  // What the ranks have met by may go when this returns: all must be connected.
  group->barrier({.call = {.timeout = deadline.left()}})->wait();
  return group;
}

}  // namespace dl
