// The class behind make_mpi_group(): checks arguments, makes operations, submits them to its Core.
#include <cstring>
#include <thread>

#include "collectives/call/buffers.h"
#include "collectives/call/calls.h"
#include "collectives/join/roster.h"
#include "collectives/join/split.h"
#include "collectives/mpi/core.h"
#include "collectives/mpi/mpi_group.h"
#include "collectives/solo/solo_group.h"

namespace dl::collectives {
namespace mpi {
namespace {

void copy(void* to, const void* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

std::size_t sum_before(std::span<const std::size_t> counts, int rank) {
  std::size_t sum = 0;
  for (int r = 0; r < rank; ++r) sum += counts[static_cast<std::size_t>(r)];
  return sum;
}

// A copy of the input of an in-place operation, together with the buffer's owner.
struct Copied final : RefCounted {
  Copied(const void* from, std::size_t bytes, Ref<RefCounted> with)
      : memory(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes),
        owner(std::move(with)) {}
  std::vector<std::byte> memory;
  Ref<RefCounted> owner;
};

class Group final : public ProcessGroup {
 public:
  // `how`: also used for the groups that split() makes.
  Group(Ref<Core> core, const MpiGroupOptions& how)
      : core_(std::move(core)), timeout_(how.timeout), how_(how) {}

  int rank() const noexcept override { return core_->rank(); }
  int size() const noexcept override { return core_->size(); }
  std::string_view name() const noexcept override { return core_->name(); }
  std::string_view backend() const noexcept override { return "mpi"; }

  Ref<Work> all_reduce(const AllReduceOptions& o) override {
    check_all_reduce(o);
    return start(make(descriptor_of(o), o.call, o.input, o.output));
  }
  Ref<Work> broadcast(const BroadcastOptions& o) override {
    check_broadcast(o, size());
    return start(make(descriptor_of(o), o.call, o.buffer, o.buffer));
  }
  Ref<Work> reduce(const ReduceOptions& o) override {
    check_reduce(o, rank(), size());
    return start(make(descriptor_of(o), o.call, o.input, o.output));
  }
  Ref<Work> barrier(const BarrierOptions& o) override {
    return start(make({.op = OpKind::kBarrier}, o.call, nullptr, nullptr));
  }
  Ref<Work> all_gather(const AllGatherOptions& o) override {
    check_all_gather(o, rank(), size());
    const std::vector<std::size_t> counts = equal_counts(o.count, size());
    return start_all_gather(
        descriptor_of(o),
        {.input = o.input, .output = o.output, .counts = counts, .dtype = o.dtype, .call = o.call});
  }
  Ref<Work> reduce_scatter(const ReduceScatterOptions& o) override {
    check_reduce_scatter(o, rank(), size());
    const Ref<Collective> work = make(descriptor_of(o), o.call, o.input, o.output);
    work->send_counts = equal_counts(o.count, size());
    return start(work);
  }
  Ref<Work> gather(const GatherOptions& o) override {
    return start_gather(descriptor_of(o), as_parts(o, equal_counts(o.count, size())));
  }
  Ref<Work> scatter(const ScatterOptions& o) override {
    return start_scatter(descriptor_of(o), as_parts(o, equal_counts(o.count, size())));
  }
  Ref<Work> all_to_all(const AllToAllOptions& o) override {
    return start_all_to_all(descriptor_of(o), as_parts(o, equal_counts(o.count, size())));
  }
  Ref<Work> all_gatherv(const AllGathervOptions& o) override {
    const std::size_t sum = check_parts(OpKind::kAllGatherv, o, rank(), size());
    return start_all_gather({.count = sum, .op = OpKind::kAllGatherv, .dtype = o.dtype}, o);
  }
  Ref<Work> reduce_scatterv(const ReduceScattervOptions& o) override {
    const std::size_t sum = check_parts(OpKind::kReduceScatterv, o, rank(), size());
    const Ref<Collective> work = make({.count = sum,
                                       .op = OpKind::kReduceScatterv,
                                       .dtype = o.dtype,
                                       .reduce = o.op,
                                       .order = o.call.order},
                                      o.call, o.input, o.output);
    work->has_pairs = true;
    work->send_counts.assign(o.counts.begin(), o.counts.end());
    work->receive_counts = equal_counts(o.counts[static_cast<std::size_t>(rank())], size());
    return start(work);
  }
  Ref<Work> gatherv(const GathervOptions& o) override {
    return start_gather({.root = o.root, .op = OpKind::kGatherv, .dtype = o.dtype}, o);
  }
  Ref<Work> scatterv(const ScattervOptions& o) override {
    return start_scatter({.root = o.root, .op = OpKind::kScatterv, .dtype = o.dtype}, o);
  }
  Ref<Work> all_to_allv(const AllToAllvOptions& o) override {
    return start_all_to_all({.op = OpKind::kAllToAllv, .dtype = o.dtype}, o);
  }

  Ref<Work> send(const SendOptions& o) override {
    return start_message(descriptor_of(o), o.call, o.peer, const_cast<void*>(o.buffer));
  }
  Ref<Work> recv(const RecvOptions& o) override {
    return start_message(descriptor_of(o), o.call, o.peer, o.buffer);
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

  // To be called before this rank's buffers are touched.
  Ref<Collective> make(const Descriptor& what, const CallOptions& call, const void* input,
                       void* output) {
    check_call(what, call, "mpi");
    core_->throw_if_broken();
    auto work = make_ref<Collective>(core_, what, call.timeout.value_or(timeout_), call.holds);
    work->input = static_cast<const std::byte*>(input);
    work->output = static_cast<std::byte*>(output);
    return work;
  }
  Ref<Work> start(const Ref<Collective>& work) {
    core_->submit(work);
    return work;
  }
  Ref<Work> start_message(const Descriptor& what, const CallOptions& call, int peer, void* buffer) {
    check_peer(what, peer, rank(), size(), buffer);
    check_call(what, call, "mpi");
    auto work = make_ref<Message>(core_, what, call.timeout.value_or(timeout_), call.holds, peer,
                                  static_cast<std::byte*>(buffer));
    core_->submit(work);
    return work;
  }

  // The caller copies its own part: a long copy in the driver would delay other operations.
  Ref<Work> start_all_gather(const Descriptor& what, const AllGathervOptions& o) {
    const Ref<Collective> work = make(what, o.call, o.input, o.output);
    const std::size_t own = o.counts[static_cast<std::size_t>(rank())];
    const std::size_t element = size_of(o.dtype);
    copy(work->output + sum_before(o.counts, rank()) * element, o.input, own * element);
    work->has_pairs = what.op == OpKind::kAllGatherv;
    work->send_counts = equal_counts(own, size());
    work->receive_counts.assign(o.counts.begin(), o.counts.end());
    return start(work);
  }

  Ref<Work> start_gather(const Descriptor& what, const GathervOptions& o) {
    check_parts(what.op, o, rank(), size());
    const Ref<Collective> work = make(what, o.call, o.input, o.output);
    const std::size_t element = size_of(o.dtype);
    work->has_pairs = what.op == OpKind::kGatherv;
    work->send_counts = equal_counts(0, size());
    work->receive_counts = equal_counts(0, size());
    if (rank() == o.root) {
      copy(work->output + sum_before(o.counts, rank()) * element, o.input, o.count * element);
      work->receive_counts.assign(o.counts.begin(), o.counts.end());
    } else {
      work->send_counts[static_cast<std::size_t>(o.root)] = o.count;
    }
    return start(work);
  }

  Ref<Work> start_scatter(const Descriptor& what, const ScattervOptions& o) {
    check_parts(what.op, o, rank(), size());
    const Ref<Collective> work = make(what, o.call, o.input, o.output);
    const std::size_t element = size_of(o.dtype);
    work->has_pairs = what.op == OpKind::kScatterv;
    work->send_counts = equal_counts(0, size());
    work->receive_counts = equal_counts(0, size());
    if (rank() == o.root) {
      copy(o.output, work->input + sum_before(o.counts, rank()) * element, o.count * element);
      work->send_counts.assign(o.counts.begin(), o.counts.end());
    } else {
      work->receive_counts[static_cast<std::size_t>(o.root)] = o.count;
    }
    return start(work);
  }

  Ref<Work> start_all_to_all(const Descriptor& what, const AllToAllvOptions& o) {
    check_parts(what.op, o, rank(), size());
    const std::size_t element = size_of(o.dtype);
    CallOptions call = o.call;
    const void* input = o.input;
    if (o.input == o.output) {
      auto copied = make_ref<Copied>(o.input, sum_before(o.send_counts, size()) * element,
                                     std::move(call.holds));
      input = copied->memory.data();
      call.holds = copied;
    }
    const Ref<Collective> work = make(what, call, input, o.output);
    if (o.input != o.output) {
      copy(work->output + sum_before(o.receive_counts, rank()) * element,
           work->input + sum_before(o.send_counts, rank()) * element,
           o.send_counts[static_cast<std::size_t>(rank())] * element);
    }
    work->has_pairs = what.op == OpKind::kAllToAllv;
    work->send_counts.assign(o.send_counts.begin(), o.send_counts.end());
    work->receive_counts.assign(o.receive_counts.begin(), o.receive_counts.end());
    return start(work);
  }

  Ref<Core> core_;
  std::chrono::nanoseconds timeout_;
  MpiGroupOptions how_;
  std::atomic<std::uint64_t> next_split_{1};
};

// What the ranks tell each other when a group is made.
struct Introduction {
  std::int32_t pid;
  char host[60];
};

// A communicator and the ranks in it.
struct Circle {
  Handle comm = 0;
  std::vector<Introduction> ranks;
};

// Blocks; to be run in a thread of its own.
int introduce(const Module& mpi, Circle& circle, const Introduction& own, int size) {
  circle.ranks.resize(static_cast<std::size_t>(size));
  Handle request = 0;
  int code = mpi.all_gather(&own, circle.ranks.data(), sizeof own, circle.comm, &request);
  for (Ended ended{}; code == 0 && !ended.is_ended;) {
    code = mpi.test(&request, &ended);
    if (!ended.is_ended) std::this_thread::yield();
  }
  return code;
}

using MakeComm = std::function<int(const Module&, Handle*)>;

Ref<ProcessGroup> make_group(Engine& engine, const MpiGroupOptions& options, int rank, int size,
                             const MakeComm& make_comm, Deadline deadline) {
  // Shared with the thread, which outlives this call if MPI hangs.
  const auto circle = std::make_shared<Circle>();
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
  WaitPolicy policy = wait_policy(local);
  policy.speak_after = options.speak_after;
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
