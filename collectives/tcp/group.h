// TcpGroup's class: checks arguments, makes operations, hands them to its Core. For
// make_tcp_group() and tests; users see ProcessGroup.
#pragma once

#include "collectives/at_exit.h"
#include "collectives/process_group.h"
#include "collectives/tcp/core.h"
#include "collectives/tcp/tcp_group.h"

namespace dl::collectives::tcp {

class Group final : public ProcessGroup {
 public:
  // `how`: also that of further groups, made by split().
  Group(Ref<Engine> engine, Mesh mesh, GroupOptions how, const WaitPolicy& policy = {},
        const Choices& choices = {});

  int rank() const noexcept override { return core_->rank(); }
  int size() const noexcept override { return core_->size(); }
  std::string_view name() const noexcept override { return core_->name(); }
  std::string_view backend() const noexcept override { return "tcp"; }
  std::string_view plan() const noexcept override { return how_.plan.name; }

  Ref<Work> all_reduce(const AllReduceOptions& options) override;
  Ref<Work> broadcast(const BroadcastOptions& options) override;
  Ref<Work> all_gather(const AllGatherOptions& options) override;
  Ref<Work> reduce_scatter(const ReduceScatterOptions& options) override;
  Ref<Work> barrier(const BarrierOptions& options) override;
  Ref<Work> send(const SendOptions& options) override;
  Ref<Work> recv(const RecvOptions& options) override;
  Ref<Work> reduce(const ReduceOptions& options) override;

  // group_parts.cc
  Ref<Work> gather(const GatherOptions& options) override;
  Ref<Work> scatter(const ScatterOptions& options) override;
  Ref<Work> all_to_all(const AllToAllOptions& options) override;
  Ref<Work> all_gatherv(const AllGathervOptions& options) override;
  Ref<Work> reduce_scatterv(const ReduceScattervOptions& options) override;
  Ref<Work> gatherv(const GathervOptions& options) override;
  Ref<Work> scatterv(const ScattervOptions& options) override;
  Ref<Work> all_to_allv(const AllToAllvOptions& options) override;

  Ref<ProcessGroup> split(const SplitOptions& options) override;

  void abort(std::string_view reason) noexcept override;
  std::exception_ptr error() const noexcept override { return core_->error(); }
  std::exception_ptr gone_rank() const override { return core_->gone_rank(); }
  void fail(const std::exception_ptr& cause, std::optional<std::uint64_t> spared) noexcept override;
  int rank_in_job() const noexcept override { return how_.in_job(); }

  // For a group that this one is part of. -------------------------------------------------------
  const Identity& identity(int rank) const noexcept { return core_->identity(rank); }
  const Identity& identity() const noexcept { return identity(rank()); }
  const Plan& whole_plan() const noexcept { return how_.plan; }  // rank 0's
  // Collective: all ranks have called the same operation, whose bytes go another way. It takes a
  // number as this group's own do, which is written into `what`. Ranks that differ get kMismatch.
  Ref<Work> agree(Descriptor& what, const CallOptions& call);
  // After a mismatch, what this rank has called in that place.
  std::string own_call() const { return core_->own_call(); }
  // The last collective that this rank has completed, and the last one that the broken group
  // spares.
  std::uint64_t completed() const noexcept { return core_->completed(); }
  std::uint64_t spared() const noexcept { return core_->spared(); }
  // Throws if a call of `op` would be refused, as the group is broken.
  void throw_if_refused(OpKind op) const { core_->throw_if_refused(op); }
  // Asks all ranks for a sign of life.
  void ask_peers();
  // Who has given none since `asked`, which has reached it; waits for all ranks' signs until the
  // deadline. Empty if all have given one, and if the group is broken.
  std::vector<Identity> silent_peers(Deadline::Clock::time_point asked, Deadline until);

 private:
  ~Group() override;
  void leave_at_exit();
  // Before this rank's buffers are touched.
  void check_start(const Descriptor& what, const CallOptions& call) const;
  Ref<Work> start(const Descriptor& what, const CallOptions& call, const void* input, void* output,
                  bool in_place);
  Ref<Work> start(const Descriptor& what, const CallOptions& call, const void* input, void* output,
                  Schedule schedule);
  Ref<Work> start_gather(const Descriptor& what, const GathervOptions& options);
  Ref<Work> start_scatter(const Descriptor& what, const ScattervOptions& options);
  Ref<Work> start_all_to_all(const Descriptor& what, const AllToAllvOptions& options);
  Ref<Work> start_message(const Descriptor& what, const CallOptions& call, int peer, void* buffer);

  Ref<Engine> engine_;
  Ref<Core> core_;
  GroupOptions how_;
  Choices choices_;
  std::atomic<std::uint64_t> next_split_{1};
  const AtExit at_exit_{[this] { leave_at_exit(); }};
};

}  // namespace dl::collectives::tcp
