// TcpGroup's class: checks arguments, makes operations, hands them to its Core. For
// make_tcp_group() and tests; users see ProcessGroup.
#pragma once

#include "collectives/process_group.h"
#include "collectives/tcp/core.h"
#include "collectives/tcp/tcp_group.h"

namespace dl::collectives::tcp {

class Group final : public ProcessGroup {
 public:
  struct Options {
    std::string name = "world";
    std::uint64_t generation = 0;
    std::chrono::nanoseconds timeout = std::chrono::seconds(600);
    WaitPolicy policy{};
    Choices choices{};
    TcpGroupOptions how{};  // recorder; and how split() makes further groups
  };
  Group(Ref<Engine> engine, Mesh mesh, const Options& options);

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

 private:
  ~Group() override;
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
  std::chrono::nanoseconds timeout_;
  TcpGroupOptions how_;
  Choices choices_;
  std::atomic<std::uint64_t> next_split_{1};
};

}  // namespace dl::collectives::tcp
