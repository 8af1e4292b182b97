// The class behind make_tcp_group(): checks arguments, makes operations, submits them to its Core.
// Used by make_tcp_group() and tests; users see ProcessGroup.
#pragma once

#include "collectives/api/process_group.h"
#include "collectives/process/at_exit.h"
#include "collectives/tcp/core/work.h"
#include "collectives/tcp/tcp_group.h"

namespace dl::collectives::tcp {

class Group final : public ProcessGroup {
 public:
  // `how`: also used for the groups that split() makes.
  Group(Ref<Engine> engine, Mesh mesh, GroupOptions how, const WaitPolicy& policy = {},
        const Choices& choices = {});

  Ref<Work> start(const Call& call) override;

  Ref<ProcessGroup> split(const SplitOptions& options) override;

  void abort(std::string_view reason) noexcept override;
  std::exception_ptr error() const noexcept override { return core_->status().error(); }
  std::exception_ptr gone_rank() const override { return core_->gone_rank(); }
  void fail(const std::exception_ptr& cause,
            std::optional<std::uint64_t> completes_until) noexcept override;
  int rank_in_job() const noexcept override { return how_.in_job(); }
  Identity identity(int rank) const override { return core_->group().who(rank); }

  // For a hybrid group that contains this group.
  // ----------------------------------------------------
  Identity own_identity() const { return identity(rank()); }
  const Plan& whole_plan() const noexcept { return how_.plan; }  // rank 0's
  // Collective without data: checks that all ranks have called the same operation, whose data moves
  // elsewhere. It takes one of this group's sequence numbers and stores it in `what`. If ranks
  // differ, it fails with kMismatch.
  Ref<Work> agree(Descriptor& what, const CallOptions& call);
  // After a mismatch: the operation that this rank has called under that sequence number.
  std::string own_call() const { return core_->status().own_call(); }
  // The last collective that this rank has completed, and the last one that the broken group still
  // completes.
  std::uint64_t completed() const noexcept { return core_->status().completed(); }
  std::uint64_t completes_until() const noexcept { return core_->status().completes_until(); }
  // Throws if the group is broken and refuses the call.
  void throw_if_refused(Descriptor called) const;
  // Sends a probe to every rank.
  void ask_peers();
  // Waits until the deadline for signs of life from all ranks, and returns the ranks that have
  // received the probe and given none since `asked`. Empty if all have answered, or if the group is
  // broken.
  std::vector<Identity> silent_peers(Deadline::Clock::time_point asked, Deadline until);

 private:
  ~Group() override;
  void leave_at_exit();
  template <typename F>
  void break_with(const F& cause, std::optional<std::uint64_t> completes_until = {}) noexcept;
  // To be called before this rank's buffers are touched.
  void check_start(const Call& call) const;
  // `call` has the plan.
  Ref<Work> start(const Call& call, Schedule schedule);
  Ref<Work> start_message(const Call& call);

  Ref<Engine> engine_;
  Ref<Core> core_;
  GroupOptions how_;
  Choices choices_;
  std::atomic<std::uint64_t> next_split_{1};
  const AtExit at_exit_{[this] { leave_at_exit(); }};
};

// make_tcp_group() for two ranks or more, for a hybrid group that contains this group.
Ref<Group> make_group(const GroupOptions& options);

}  // namespace dl::collectives::tcp
