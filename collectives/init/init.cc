#include "collectives/init/init.h"

#include <unistd.h>

#include <algorithm>

#include "collectives/call/recording.h"
#include "collectives/compose/objects.h"
#include "collectives/device/device_group.h"
#include "collectives/hybrid/route/places.h"
#include "collectives/init/attendance/attendance.h"
#include "collectives/init/checkpoint/preemption_signals.h"
#include "collectives/init/choice.h"
#include "collectives/init/launch.h"
#include "collectives/init/make_group.h"
#include "collectives/init/meeting.h"
#include "collectives/join/roster.h"
#include "collectives/mpi/mpi_group.h"
#include "collectives/process/at_exit.h"
#include "collectives/process/held_place.h"
#include "collectives/waiting/group_error.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/base/system/output.h"
#include "core/base/system/process/fork.h"
#include "core/base/system/process/stopped.h"

namespace dl {
namespace {

using detail::Deadline;

using collectives::ProcessGroup;

constexpr std::chrono::seconds kDefaultTimeout{600};
constexpr std::chrono::nanoseconds kLeastTime = std::chrono::milliseconds(1);

std::chrono::nanoseconds default_timeout() {
  const auto seconds = env::get_int(env::Var::kTimeout);
  if (!seconds) return kDefaultTimeout;
  constexpr auto kMost =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::nanoseconds::max());
  DL_CHECK(*seconds > 0 && *seconds <= kMost.count(), kInvalidArgument,
           "DLRUN_TIMEOUT={} is not a time in seconds", *seconds);
  return std::chrono::seconds(*seconds);
}

// What a default group needs; destroyed in reverse order.
struct Session {
  ForkMark made_in{};
  collectives::HeldPlace place{};
  std::unique_ptr<collectives::Meeting> meeting;
  // Groups keep it; closed before the store is destroyed.
  Ref<collectives::nccl::Notices> notices{};
  Ref<ProcessGroup> group;
  Ref<collectives::Ended> ended = make_ref<collectives::Ended>();
  collectives::ExitScope scope{};
};

// MPI knows the ranks and connects them, so this needs no meeting, store or key.
Session make_mpi_session(const ProcessGroupOptions& options) {
  const std::chrono::nanoseconds timeout = options.timeout ? *options.timeout : default_timeout();
  watch_for_stops();
  // A plan's file tells of TCP. A name that is wrong is refused before MPI starts and has to end.
  collectives::Plan plan = collectives::find_plan("default", options.algorithm);
  const collectives::MpiWorld world = collectives::start_mpi(timeout);
  DL_CHECK(options.rank.value_or(world.rank) == world.rank &&
               options.world_size.value_or(world.size) == world.size,
           kInvalidArgument,
           "backend mpi: this is rank {} of {}, and the program asked for {} of {}", world.rank,
           world.size, options.rank.value_or(world.rank), options.world_size.value_or(world.size));
  Session session;
  session.group = collectives::make_mpi_group(
      {.name = options.name,
       .timeout = timeout,
       .connect_timeout = timeout,
       .plan = std::move(plan),
       .recorder = collectives::open_recorder(world.rank, world.size, 0)});
  session.group->barrier()->wait();
  return session;
}

// A rank's place in a job of dlrun. It is one for each name of a group: groups of several names
// have nothing to do with each other.
collectives::HeldPlace hold_place(const collectives::MeetingOptions& where) {
  const auto store = env::get(env::Var::kStore);
  if (!store || where.init_method != "env://") return {};
  // A process that a rank has started has the rank's number in the job, too. If two ranks of the
  // job come as one rank, the store tells both.
  collectives::HeldPlace place(fmt::format("{} {} {} {} {} {}", *store, where.job, where.generation,
                                           where.launch.rank, where.job_rank, where.name));
  DL_CHECK(!place.holder(), kInvalidArgument,
           "init: process {} is rank {} of job '{}' already, and this process ({}) would be it a "
           "second time; give each rank its own number, and do not call init in a process that a "
           "rank has started, such as a worker",
           *place.holder(), where.launch.rank, where.job, ::getpid());
  return place;
}

// Meets the job's other ranks and makes the group. `asked`: the backend for CPU memory. `deadline`:
// for all steps together.
Session join_once(const ProcessGroupOptions& options, const collectives::Launch& launch,
                  const std::string& asked, const collectives::Plan& plan,
                  std::chrono::nanoseconds timeout, Deadline deadline, bool must_be_nccl) {
  const collectives::JobPlace place = collectives::find_job_place();
  const collectives::MeetingOptions where{
      .init_method = options.init_method,
      .name = options.name,
      .launch = launch,
      .job = place.job,
      .generation = place.generation,
      .job_rank = place.is_in_job ? collectives::find_launch({}, {}).rank : -1,
      .timeout = timeout};
  Session session;
  session.place = hold_place(where);
  // Open the recorder first: even a rank that fails below leaves a record.
  const auto recorder =
      collectives::open_recorder(launch.rank, launch.world_size, place.generation);
  session.meeting = collectives::make_meeting(where, deadline);
  const collectives::GroupOptions how{
      .rank = launch.rank,
      .size = launch.world_size,
      .name = options.name,
      .store = &session.meeting->store(),
      .key = session.meeting->key(),
      .job = place.job,
      .generation = place.generation,
      .timeout = timeout,
      .connect_timeout = timeout,
      .connect_by = deadline,
      .all_announced = session.meeting->all_announced(),
      .check_making = [&session] { session.meeting->check(); },
      .check_absent = [&session](int rank) { session.meeting->check_absent(rank); },
      .node = place.node,
      .recorder = recorder,
      .iface = place.iface,
      .route_to = session.meeting->route_to(),
      .plan = plan};
  session.notices = make_ref<collectives::nccl::Notices>(&session.meeting->store());
  const collectives::DeviceGroupOptions devices{.timeout = timeout,
                                                .must_be_nccl = must_be_nccl,
                                                .notices = session.notices,
                                                .recorder = recorder,
                                                .ended = session.ended};
  session.group = collectives::connect_group(how, asked, [devices](Ref<ProcessGroup> host) {
    return collectives::make_device_group(std::move(host), devices);
  });
  // Rank 0 must serve the store until all ranks are connected.
  session.group->barrier({.call = {.timeout = std::max(deadline.left(), kLeastTime)}})->wait();
  session.meeting->joined();
  if (launch.rank == 0 && !session.group->plan().empty()) {
    log::info("group '{}' of {} ranks over {}: plan '{}' picks algorithms", options.name,
              launch.world_size, session.group->backend(), session.group->plan());
  }
  return session;
}

Session join_job(const ProcessGroupOptions& options, const collectives::Launch& launch,
                 const std::string& asked, const collectives::Plan& plan,
                 std::chrono::nanoseconds timeout, bool must_be_nccl) {
  const Deadline deadline = Deadline::after(timeout);
  for (;;) {
    try {
      return join_once(options, launch, asked, plan, timeout, deadline, must_be_nccl);
    } catch (const collectives::Superseded& error) {
      DL_CHECK(
          !deadline.has_passed(), kTimeout,
          "init of group '{}': its time was over before it could join the others, who have begun "
          "another init",
          options.name);
      log::info("{}; this rank joins it", error.what());
    }
  }
}

Session make_session(const ProcessGroupOptions& options) {
  std::string asked =
      options.backend == "auto" ? env::get(env::Var::kBackend).value_or("auto") : options.backend;
  asked = collectives::backend_for(asked, options.algorithm);
  if (asked == "mpi") return make_mpi_session(options);
  const bool must_be_nccl = asked == "nccl";
  if (must_be_nccl) {
    collectives::require_nccl();
    asked = "auto";  // for CPU memory
  }
  collectives::check_group_name(options.name);
  const collectives::Plan plan = collectives::find_plan(options.plan, options.algorithm);
  const collectives::Launch launch = collectives::find_launch(options.rank, options.world_size);
  const std::chrono::nanoseconds timeout = options.timeout ? *options.timeout : default_timeout();
  collectives::check_init_method(options.init_method);
  if (launch.world_size == 1) {
    Session alone;
    const collectives::DeviceGroupOptions devices{
        .timeout = timeout, .must_be_nccl = must_be_nccl, .ended = alone.ended};
    alone.group = collectives::connect_group(
        {.name = options.name, .timeout = timeout}, asked, [devices](Ref<ProcessGroup> host) {
          return collectives::make_device_group(std::move(host), devices);
        });
    return alone;
  }
  watch_for_stops();
  return collectives::tell_failure(
      {.operation = collectives::making_of(options.name),
       .text =
           fmt::format("init of '{}' of {} ranks over {}", options.name, launch.world_size, asked)},
      launch.rank, [&] { return join_job(options, launch, asked, plan, timeout, must_be_nccl); });
}

Mutex session_mutex;  // constant-initialised
Session* session DL_GUARDED_BY(session_mutex) = nullptr;

}  // namespace

void init_process_group(const ProcessGroupOptions& options) {
  const Lock lock(session_mutex);
  DL_CHECK(
      session == nullptr || !session->made_in.is_in_child(), kInvalidArgument,
      "init: this process is a child that a rank has forked, and the rank's connections cannot be "
      "made anew in it; fork before the rank has called init, or exec a program that calls it");
  DL_CHECK(session == nullptr, kInvalidArgument,
           "init: this process has a group of an earlier init; end that group first");
  open_missing_standard_streams();  // otherwise one of our sockets could get the program's output
  outlive_signals_of_preemption();
  collectives::ExitScope scope;
  {
    const collectives::ExitScope::Recording recording(scope);
    session = new Session(make_session(options));
  }
  session->scope = std::move(scope);
  if (session->group->size() > 1) log::set_who(fmt::format("rank {}", session->group->rank()));
}

void destroy_process_group() {
  const Lock lock(session_mutex);
  // In a forked child the group belongs to the parent: leave it as it is.
  if (session == nullptr || session->made_in.is_in_child()) return;
  session->ended->is_so.store(true);
  session->group = nullptr;
  if (session->notices) session->notices->close();
  session->scope.leave();  // groups that the program still holds
  delete session;
  session = nullptr;
}

bool is_initialized() noexcept {
  const Lock lock(session_mutex);
  return session != nullptr && !session->made_in.is_in_child();
}

int rank() noexcept {
  const Lock lock(session_mutex);
  return session == nullptr ? 0 : session->group->rank();
}

int world_size() noexcept {
  const Lock lock(session_mutex);
  return session == nullptr ? 1 : session->group->size();
}

Ref<ProcessGroup> default_group() {
  const Lock lock(session_mutex);
  DL_CHECK(session != nullptr, kInvalidArgument,
           "this process has no group of init; call init first");
  return session->group;
}

Ref<ProcessGroup> reform(const Ref<ProcessGroup>& group,
                         std::optional<std::chrono::nanoseconds> timeout) {
  DL_CHECK(group, kInvalidArgument, "reform: the group is null");
  DL_CHECK(group->backend() != "mpi", kNotImplemented,
           "reform: group '{}' is over MPI, which cannot go on without a rank; use another backend",
           group->name());
  const Ref<collectives::Reformer> reformer = group->reformer();
  DL_CHECK(
      reformer, kInvalidArgument,
      "reform: group '{}' was re-formed already, or was made by split(); call it for the group "
      "that reform() returned, or for the group that was split",
      group->name());
  collectives::ExitScope scope;
  Ref<ProcessGroup> made;
  {
    const collectives::ExitScope::Recording recording(scope);
    const std::string operation = fmt::format("the re-forming of group '{}'", group->name());
    made =
        collectives::tell_failure({.operation = operation, .text = "reform"}, group->rank_in_job(),
                                  [&] { return reformer->reform(*group, timeout); });
  }
  const Lock lock(session_mutex);
  if (session != nullptr && session->group == group) {
    session->group = made;
    session->scope = std::move(scope);
    if (made->size() > 1) log::set_who(fmt::format("rank {}", made->rank_in_job()));
  }
  return made;
}

Ref<ProcessGroup> split_by_node(ProcessGroup& group) {
  const collectives::Identity self =
      collectives::this_process(group.rank(), collectives::find_job_place().node);
  const auto places =
      collectives::hybrid::places_of(collectives::all_gather_bytes(group, self.node));
  return group.split(
      {.color = places.node_of[static_cast<std::size_t>(group.rank())], .key = group.rank()});
}

collectives::Agreement agree(std::string_view name, bool flag, std::chrono::nanoseconds patience) {
  const Ref<ProcessGroup> group = default_group();
  rendezvous::Store* store = nullptr;
  {
    const Lock lock(session_mutex);
    DL_CHECK(session == nullptr || !session->made_in.is_in_child(), kInvalidArgument,
             "agree: this process is a child that a rank has forked, and has no vote");
    if (session != nullptr && session->meeting) store = &session->meeting->store();
  }
  DL_CHECK(store != nullptr || group->backend() != "mpi", kNotImplemented,
           "agree: a job of the mpi backend has no store to agree in");
  if (store == nullptr) return {.flag = flag};  // this rank is alone
  const std::chrono::nanoseconds timeout = default_timeout();
  const Deadline last = Deadline::after(detail::saturating_add(patience, timeout));
  return collectives::agree(
      *store, {.name = name, .rank = group->rank(), .size = group->size(), .flag = flag},
      Deadline::after(patience), last);
}

}  // namespace dl
