#include "collectives/init/make_group.h"

#include <fmt/core.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "collectives/call/recording.h"
#include "collectives/hybrid/group.h"
#include "collectives/init/choice.h"
#include "collectives/init/launch.h"
#include "collectives/join/meet/exchange.h"
#include "collectives/join/meet/place.h"
#include "collectives/join/roster.h"
#include "collectives/process/peer_process.h"
#include "collectives/shm/shm_group.h"
#include "collectives/solo/solo_group.h"
#include "collectives/tcp/tcp_group.h"
#include "collectives/waiting/group_error.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/system/output.h"
#include "core/base/system/process/fork.h"
#include "core/base/system/process/stopped.h"
#include "rendezvous/net/lifeline.h"
#include "rendezvous/stores/prefix_store.h"

namespace dl {
namespace collectives {
namespace {

// A group of two ranks or more. `address`: of this rank's Place. `when_chosen`: called before the
// ranks connect.
Ref<ProcessGroup> connect(GroupOptions how, const std::string& asked, const std::string& address,
                          const std::function<void(int)>& begin_round,
                          const std::function<void(const Choice&)>& when_chosen) {
  const Deadline deadline = connect_deadline(how);
  const Choice choice = choose_backend(how, asked, address, deadline);
  when_chosen(choice);
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

// "world~2": the second group that went on from 'world'.
std::string name_of_generation(std::string base, std::uint64_t generation) {
  constexpr std::size_t kLongest = 128 - 21;  // of a group's name, without "~" and a number
  if (base.size() > kLongest) base.resize(kLongest);
  return fmt::format("{}~{}", base, generation);
}

// An error of this rank alone, or that another try would meet again. A timeout is that of the rank
// with the earliest deadline, which names who is missing.
bool is_final(ErrorKind kind) {
  return kind != ErrorKind::kPeerFailed && kind != ErrorKind::kConnection &&
         kind != ErrorKind::kAborted;
}

class GroupReformer final : public Reformer {
 public:
  // `place`: null for a rank that is alone.
  GroupReformer(GroupOptions how, std::string asked, std::unique_ptr<meet::Place> place,
                Finish finish)
      : how_(std::move(how)),
        asked_(std::move(asked)),
        place_(std::move(place)),
        finish_(std::move(finish)),
        self_(this_process(how_)) {
    forget_connecting(how_);
  }

  Ref<ProcessGroup> reform(ProcessGroup& group,
                           std::optional<std::chrono::nanoseconds> timeout) override {
    DL_CHECK(!is_busy_.exchange(true), kInvalidArgument,
             "reform: another thread re-forms group '{}'", group.name());
    const struct Busy {
      ~Busy() { is.store(false); }
      std::atomic<bool>& is;
    } busy{is_busy_};
    DL_CHECK(group.reformer().get() == this, kInvalidArgument,
             "reform: another thread has re-formed group '{}'", group.name());
    DL_CHECK(!made_in_.is_in_child(), kInvalidArgument, "{}",
             text_of_forked_child(std::string(group.name()), self_));
    group.abort(kRenewal);
    const std::chrono::nanoseconds time = timeout.value_or(how_.timeout);
    // What has broken the old group does not explain why the new one is not made.
    rendezvous::report_recovery(rendezvous::standing_report());
    const Called called{.operation = fmt::format("the reform of group '{}'", how_.name),
                        .text = fmt::format("reform of '{}'", how_.name)};
    Ref<ProcessGroup> made = tell_failure(
        called, how_.in_job(), [&] { return make_in_time(time, Deadline::after(time)); });
    rendezvous::report_renewal();
    group.set_reformer(nullptr);
    made->set_reformer(Ref<Reformer>(this));
    return made;
  }

 private:
  Ref<ProcessGroup> make_in_time(std::chrono::nanoseconds time, Deadline deadline) {
    for (;;) {
      try {
        return make(time, deadline);
      } catch (const Error& error) {
        // A rank has died after all had agreed: the others agree again.
        if (is_final(error.kind()) || deadline.has_passed()) throw;
        log::info("reform of group '{}' begins again: {}", how_.name, error.what());
      }
    }
  }

  Ref<ProcessGroup> make(std::chrono::nanoseconds time, Deadline deadline) {
    if (!place_) return finish_(make_solo_group(name_of_generation(how_.name, ++alone_)));
    GroupOptions how = how_;
    how.segment = reserve_early();
    meet::Place::Agreed agreed = place_->agree(time, deadline);
    how.job_rank = how_.in_job();
    how.rank = agreed.rank;
    how.size = agreed.size;
    how.name = name_of_generation(how_.name, agreed.generation);
    if (how.size == 1) return finish_(make_solo_group(how.name));
    meet::ExchangeStore store(*agreed.exchange, how.name);
    how.store = &store;
    how.check_making = [&] { agreed.exchange->check(); };
    if (how_.key) how.key = agreed.key;
    how.connect_timeout = time;
    how.connect_by = deadline;
    Ref<ProcessGroup> host = connect(
        how, asked_, /*address=*/{}, [&](int round) { store.begin_round(round, deadline); },
        [](const Choice&) {});
    host->barrier({.call = {.timeout = deadline.left()}})->wait();
    return finish_(std::move(host));
  }

  // The memory takes milliseconds: the rank needs it while it waits for others. If there is none,
  // the choice of the backend says so.
  Ref<SegmentLease> reserve_early() const {
    if (asked_ == "tcp") return nullptr;
    try {
      return reserve_shm_segment();
    } catch (const Error&) {
      return nullptr;
    }
  }

  GroupOptions how_;  // of the first group
  const std::string asked_;
  const std::unique_ptr<meet::Place> place_;
  const Finish finish_;
  const Identity self_;
  const ForkMark made_in_{};
  std::uint64_t alone_ = 0;
  std::atomic<bool> is_busy_{false};
};

}  // namespace

Ref<ProcessGroup> connect_group(const GroupOptions& how, const std::string& asked,
                                const Finish& finish, const std::function<void(int)>& begin_round) {
  std::unique_ptr<meet::Place> place;
  Ref<ProcessGroup> group;
  if (how.size == 1) {
    group = make_solo_group(how.name);
  } else {
    place = std::make_unique<meet::Place>(how.key, how.iface);
    group = connect(how, asked, place->address(), begin_round, [&](const Choice& choice) {
      std::vector<meet::Member> members;
      for (const Record& record : choice.records) {
        members.push_back({static_cast<int>(members.size()), record.who, record.address});
      }
      place->settle(how.name,
                    {.job = how.job,
                     .generation = how.generation,
                     .from = choice.records[static_cast<std::size_t>(how.rank)].who.text()},
                    std::move(members), how.rank, choice.leaves_host);
    });
  }
  group = finish(std::move(group));
  group->set_reformer(make_ref<GroupReformer>(how, asked, std::move(place), finish));
  return group;
}

namespace {

// The id of rank 0, over the caller's store.
UniqueId pass_id(const MakeGroupOptions& options, const std::string& iface,
                 const std::vector<int>& job_ranks, Deadline deadline) {
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
                             .timeout = options.timeout,
                             .job_ranks = job_ranks};
  const std::string text = await_value(roster, this_process(options.rank, {}), "id", 0, deadline);
  return meet::id_of_hex(text);
}

Ref<ProcessGroup> meet_and_connect(const MakeGroupOptions& options, GroupOptions how,
                                   std::vector<int> job_ranks, const std::string& backend,
                                   Deadline deadline) {
  const UniqueId id = options.id ? *options.id : pass_id(options, how.iface, job_ranks, deadline);
  how.key = options.key ? *options.key : meet::key_of(id);
  const auto exchange = meet::meet_by_id(id,
                                         {.group = options.name,
                                          .rank = options.rank,
                                          .size = options.size,
                                          .timeout = options.timeout,
                                          .job_ranks = std::move(job_ranks),
                                          .key = *how.key,
                                          .hello = {.job = how.job,
                                                    .generation = how.generation,
                                                    .purpose = "meet",
                                                    .from = this_process(how).text(),
                                                    .rank = options.rank}},
                                         deadline);
  meet::ExchangeStore store(*exchange, options.name);
  how.store = &store;
  how.check_making = [&] { exchange->check(); };
  Ref<ProcessGroup> group = connect_group(how, backend, keep_host,
                                          [&](int round) { store.begin_round(round, deadline); });
  // What the ranks have met by may go when this returns: all must be connected.
  group->barrier({.call = {.timeout = deadline.left()}})->wait();
  return group;
}

void check_job_ranks(const MakeGroupOptions& options) {
  if (options.job_ranks.empty()) return;
  DL_CHECK(options.job_ranks.size() == static_cast<std::size_t>(options.size), kInvalidArgument,
           "make_group: job_ranks has {} elements, wanted one for each of {} ranks",
           options.job_ranks.size(), options.size);
  std::set<int> seen;
  for (const int rank : options.job_ranks) {
    DL_CHECK(rank >= 0, kInvalidArgument, "make_group: job_ranks has {}, wanted 0 or more", rank);
    DL_CHECK(seen.insert(rank).second, kInvalidArgument, "make_group: job_ranks has {} twice",
             rank);
  }
}

void check_options(const MakeGroupOptions& options) {
  DL_CHECK(options.backend != "mpi" && options.backend != "nccl", kInvalidArgument,
           "make_group: backend is '{}', wanted auto, shm, tcp or hybrid", options.backend);
  check_group_name(options.name);
  DL_CHECK(options.size > 0, kInvalidArgument, "make_group: size is {}, wanted 1 or more",
           options.size);
  DL_CHECK(options.rank >= 0 && options.rank < options.size, kInvalidArgument,
           "make_group: rank is {}, wanted 0 to {}, as size is {}", options.rank, options.size - 1,
           options.size);
  check_job_ranks(options);
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
  const std::string backend = backend_for(options.backend, options.algorithm);
  const Plan plan = find_plan(options.plan, options.algorithm);
  if (options.size == 1) {
    if (options.id) meet::forget_id(*options.id);
    return connect_group({.name = options.name, .timeout = options.timeout}, backend);
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
                   .plan = plan};
  std::vector<int> job_ranks = options.job_ranks;
  if (!job_ranks.empty()) {
    const int own = job_ranks[static_cast<std::size_t>(how.rank)];
    DL_CHECK(!place.is_in_job || own == launch.rank, kInvalidArgument,
             "make_group: job_ranks says that rank {} of the group is rank {} of the job, and this "
             "process is rank {}",
             how.rank, own, launch.rank);
    how.job_rank = own;
  } else if (!place.is_in_job || (launch.rank == how.rank && launch.world_size == how.size)) {
    job_ranks.resize(static_cast<std::size_t>(how.size));
    std::iota(job_ranks.begin(), job_ranks.end(), 0);
  } else if (launch.world_size == how.size) {
    job_ranks.assign(static_cast<std::size_t>(how.size), -1);
    job_ranks[static_cast<std::size_t>(how.rank)] = launch.rank;
  }
  const Called called{.operation = making_of(options.name),
                      .text = fmt::format("make_group of '{}' of {} ranks over {}", options.name,
                                          options.size, backend)};
  return tell_failure(called, how.in_job(), [&] {
    return meet_and_connect(options, std::move(how), std::move(job_ranks), backend, deadline);
  });
}

}  // namespace dl
