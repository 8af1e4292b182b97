#include "collectives/init/make_group.h"

#include <algorithm>

#include "collectives/call/recording.h"
#include "collectives/hybrid/hybrid_group.h"
#include "collectives/init/choice.h"
#include "collectives/init/launch.h"
#include "collectives/join/roster.h"
#include "collectives/shm/shm_group.h"
#include "collectives/solo/solo_group.h"
#include "collectives/tcp/tcp_group.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/system/process/stopped.h"
#include "rendezvous/stores/prefix_store.h"

namespace dl {
namespace collectives {

Ref<ProcessGroup> connect_group(GroupOptions how, const std::string& asked) {
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
  if (choice.backend == "shm") return make_shm_group(how);
  if (choice.backend == "hybrid") return make_hybrid_group(how);
  return make_tcp_group(how);
}

}  // namespace collectives

Ref<collectives::ProcessGroup> make_group(const MakeGroupOptions& options) {
  using namespace collectives;
  check_backend(options.backend);
  DL_CHECK(options.backend != "mpi" && options.backend != "nccl", kInvalidArgument,
           "make_group: backend '{}' cannot be made over a store, wanted auto, shm, tcp or hybrid",
           options.backend);
  check_group_name(options.name);
  DL_CHECK(options.size > 0 && options.rank >= 0 && options.rank < options.size, kInvalidArgument,
           "make_group: rank {} of {} ranks", options.rank, options.size);
  if (options.size == 1) return make_solo_group(options.name);
  DL_CHECK(options.store != nullptr, kInvalidArgument, "make_group: there is no store");
  watch_for_stops();
  open_missing_standard_streams();  // otherwise one of our sockets could get the program's output

  const Deadline deadline = Deadline::after(options.timeout);
  rendezvous::PrefixStore store(*options.store, "dlrun/" + options.name + "/");
  std::optional<rendezvous::JobKey> key = options.key;
  if (!key) {
    if (options.rank == 0) {
      key = rendezvous::JobKey::generate();
      store.set("key", key->hex(), deadline);
    } else {
      const RosterOptions roster{.store = &store,
                                 .group = options.name,
                                 .rank = options.rank,
                                 .size = options.size,
                                 .timeout = options.timeout};
      key = rendezvous::JobKey::from_hex(
          await_value(roster, this_process(options.rank, {}), "key", 0, deadline));
    }
  }
  // In a job of dlrun the ranks have numbers of its own, which its agents know.
  const bool is_in_job = env::get(env::Var::kJobId).has_value();
  const Launch launch = is_in_job ? find_launch({}, {}) : find_launch(options.rank, options.size);
  const auto generation =
      static_cast<std::uint64_t>(env::get_int(env::Var::kGeneration).value_or(0));
  Ref<ProcessGroup> group = connect_group(
      {.rank = options.rank,
       .size = options.size,
       .name = options.name,
       .store = &store,
       .key = key,
       .job = env::get(env::Var::kJobId).value_or("local"),
       .generation = generation,
       .timeout = options.timeout,
       .connect_timeout = options.timeout,
       .connect_by = deadline,
       .node = env::get(env::Var::kNodeId).value_or(""),
       .recorder = open_recorder(launch.rank, launch.world_size, generation),
       .job_rank = is_in_job ? launch.rank : -1,
       .iface = options.iface.empty() ? env::get(env::Var::kIface).value_or("") : options.iface,
       .plan = find_plan(options.plan, options.algorithm)},
      options.backend);
  // The store may go when this returns: all ranks must be connected.
  group->barrier({.call = {.timeout = deadline.left()}})->wait();
  return group;
}

}  // namespace dl
