// The class behind make_mpi_group(): checks arguments, makes operations, submits them to its Core.
#include <thread>

#include "collectives/call/checks.h"
#include "collectives/join/roster.h"
#include "collectives/join/split.h"
#include "collectives/mpi/core/core.h"
#include "collectives/mpi/mpi_group.h"
#include "collectives/solo/solo_group.h"

namespace dl::collectives {
namespace mpi {
namespace {

// A sum adds the ranks' shares in rank order unless the plan says otherwise. So its bits do not
// depend on the number of bytes.
Plan with_defaults(Plan plan, int size) {
  // "direct" takes one round instead of two. Two ranks send as many bytes by either; there the
  // limits are measured, with Open MPI 4.1 and MPICH 4.0 over shared memory.
  const std::uint64_t small = 4096 / static_cast<std::uint64_t>(size);
  const auto add = [&](OpKind op, std::uint64_t up_to, Algorithm algorithm) {
    plan.rules.push_back({.op = op, .up_to = up_to, .algorithm = algorithm});
  };
  for (const OpKind op : {OpKind::kAllReduce, OpKind::kReduce}) {
    add(op, small, Algorithm::kDirect);
    if (size == 2 && op == OpKind::kAllReduce) {
      add(op, 8192, Algorithm::kDirect);
      add(op, 16384, Algorithm::kShares);
      add(op, 65536, Algorithm::kDirect);
    }
    add(op, UINT64_MAX, Algorithm::kShares);
  }
  add(OpKind::kReduceScatter, UINT64_MAX, Algorithm::kDirect);
  add(OpKind::kAllGather, UINT64_MAX, Algorithm::kDirect);
  return plan;
}

class Group final : public ProcessGroup {
 public:
  // `how`: also used for the groups that split() makes.
  Group(Ref<Core> core, const MpiGroupOptions& how)
      : ProcessGroup(core->rank(), core->size(), std::string(core->name()), "mpi",
                     how.plan.rules.empty() ? "" : how.plan.name),
        core_(std::move(core)),
        timeout_(how.timeout),
        how_(how),
        choices_(with_defaults(how.plan, size()), {.ranks = size(), .nodes = 1}) {}

  Ref<Work> start(const Call& call) override {
    check_is_on_cpu(call, backend());
    const std::chrono::nanoseconds timeout = call.options->timeout.value_or(timeout_);
    if (call.row().is_message) return submit(make_ref<Message>(call, timeout, core_), call);
    core_->throw_if_broken();  // before this rank's buffers are touched
    if (call.exchanges_in_place()) {
      const SeparateCall separate(call, size());
      return submit(make_ref<Collective>(core_, separate.call(), timeout), separate.call());
    }
    copy_own_part(call, rank());
    return submit(make_ref<Collective>(core_, call, timeout), call);
  }

  Ref<ProcessGroup> split(const SplitOptions& options) override;
  void abort(std::string_view reason) noexcept override { core_->abort(reason); }
  std::exception_ptr error() const noexcept override { return core_->error(); }

 private:
  ~Group() override {
    core_->leave();
    Engine& engine = core_->engine();
    // The program may call MPI_Finalize next: afterwards dlrun may not call MPI.
    if (engine.world().was_started) engine.wait_until_over(*core_, Deadline::after(timeout_));
  }

  Ref<Work> submit(Ref<Operation> work, const Call& call) {
    core_->submit(work, call, choices_);
    return work;
  }

  Ref<Core> core_;
  std::chrono::nanoseconds timeout_;
  MpiGroupOptions how_;
  Choices choices_;
  std::atomic<std::uint64_t> next_split_{1};
};

// What the ranks tell each other when a group is made.
struct Introduction {
  std::int32_t pid;
  std::uint32_t plan_bytes;
  char host[60];
};

// A communicator and the ranks in it.
struct Circle {
  Handle comm = 0;
  std::vector<Introduction> ranks{};
  std::string plan{};  // its text; rank 0's replaces it
};

// Waits for a request that was started with this code.
int complete(const Module& mpi, int code, Handle request) {
  for (Ended ended{}; code == 0 && !ended.is_ended;) {
    code = mpi.test(&request, &ended);
    if (!ended.is_ended) std::this_thread::yield();
  }
  return code;
}

// Blocks; to be run in a thread of its own.
int introduce(const Module& mpi, Circle& circle, Introduction own, int size) {
  circle.ranks.resize(static_cast<std::size_t>(size));
  own.plan_bytes = static_cast<std::uint32_t>(circle.plan.size());
  Handle request = 0;
  int code = mpi.all_gather(&own, circle.ranks.data(), sizeof own, circle.comm, &request);
  code = complete(mpi, code, request);
  if (code != 0) return code;
  circle.plan.resize(circle.ranks.front().plan_bytes);
  code = mpi.broadcast(circle.plan.data(), circle.plan.size(), 0, circle.comm, &request);
  return complete(mpi, code, request);
}

using MakeComm = std::function<int(const Module&, Handle*)>;

Ref<ProcessGroup> make_group(Engine& engine, MpiGroupOptions options, int rank, int size,
                             const MakeComm& make_comm, Deadline deadline) {
  // Shared with the thread, which outlives this call if MPI hangs.
  const auto circle = std::make_shared<Circle>(Circle{.plan = options.plan.text()});
  const Identity self = this_process(rank, "");
  Introduction own{};
  own.pid = self.pid;
  self.host.copy(own.host, sizeof own.host - 1);
  engine.call(
      fmt::format("making group '{}' of {} ranks over MPI", options.name, size),
      [circle, own, size, make_comm](const Module& mpi) {
        const int code = make_comm(mpi, &circle->comm);
        return code != 0 || size == 0 ? code : introduce(mpi, *circle, own, size);
      },
      deadline);
  if (size == 0) return nullptr;
  std::vector<Identity> ranks;
  int local = 0;
  for (const Introduction& each : circle->ranks) {
    const std::string host(each.host);
    if (host == self.host) ++local;
    ranks.push_back(
        {.rank = static_cast<int>(ranks.size()), .host = host, .pid = each.pid, .node = host});
  }
  options.plan = Plan::parse(circle->plan, "rank 0's plan");
  WaitPolicy policy = wait_policy(local);
  policy.warn_after = options.warn_after;
  auto core = make_ref<Core>(
      engine, circle->comm, std::move(ranks), rank,
      Core::Options{.name = options.name, .policy = policy, .recorder = options.recorder});
  engine.add(core);
  return make_ref<Group>(std::move(core), options);
}

Ref<ProcessGroup> Group::split(const SplitOptions& o) {
  const SplitPlan plan = plan_split(*this, o, next_split_++);
  MpiGroupOptions options = how_;
  options.timeout = o.timeout.value_or(timeout_);
  options.name = plan.name;
  const int color = plan.rank < 0 ? -1 : o.color;
  const bool is_alone = plan.members.size() == 1;
  const int size = is_alone ? 0 : static_cast<int>(plan.members.size());
  try {
    // MPI_Comm_split needs all ranks, also those that join no group or stay alone.
    const MakeComm make_comm = [comm = core_->comm(), color = is_alone ? -1 : color,
                                key = plan.rank](const Module& mpi, Handle* made) {
      return mpi.split(comm, color, key, made);
    };
    Ref<ProcessGroup> made = make_group(core_->engine(), options, plan.rank, size, make_comm,
                                        Deadline::after(options.connect_timeout));
    return is_alone ? make_solo_group(plan.name) : made;
  } catch (const std::exception& error) {
    // The other ranks wait for this one.
    abort(fmt::format("split into group '{}' failed: {}", plan.name, error.what()));
    throw;
  }
}

}  // namespace
}  // namespace mpi

MpiWorld start_mpi(std::chrono::nanoseconds timeout) {
  const mpi::Started& world = mpi::Engine::get(Deadline::after(timeout)).world();
  return {.rank = world.rank, .size = world.size};
}

Ref<ProcessGroup> make_mpi_group(const MpiGroupOptions& options) {
  const Deadline deadline = Deadline::after(options.connect_timeout);
  mpi::Engine& engine = mpi::Engine::get(deadline);
  if (engine.world().size == 1) return make_solo_group(options.name);
  const mpi::MakeComm make_comm = [](const mpi::Module& mpi, mpi::Handle* made) {
    return mpi.duplicate_world(made);
  };
  return mpi::make_group(engine, options, engine.world().rank, engine.world().size, make_comm,
                         deadline);
}

}  // namespace dl::collectives
