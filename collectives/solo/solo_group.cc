#include "collectives/solo/solo_group.h"

#include <atomic>
#include <cstring>
#include <mutex>

#include "collectives/call/buffers.h"
#include "collectives/call/calls.h"
#include "collectives/compose/split_plan.h"
#include "collectives/reduce/reduce.h"
#include "collectives/waiting/done_work.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

class SoloGroup final : public ProcessGroup {
 public:
  explicit SoloGroup(std::string name) : name_(std::move(name)) {}

  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  std::string_view name() const noexcept override { return name_; }
  std::string_view backend() const noexcept override { return "solo"; }

  Ref<Work> all_reduce(const AllReduceOptions& o) override {
    check_all_reduce(o);
    return reduce_alone(descriptor_of(o), o.call, o.input, o.output);
  }
  Ref<Work> reduce_scatter(const ReduceScatterOptions& o) override {
    check_reduce_scatter(o, 0, 1);
    return reduce_alone(descriptor_of(o), o.call, o.input, o.output);
  }
  Ref<Work> broadcast(const BroadcastOptions& o) override {
    check_broadcast(o, 1);
    return begin(descriptor_of(o), o.call);
  }
  Ref<Work> all_gather(const AllGatherOptions& o) override {
    check_all_gather(o, 0, 1);
    return copy_alone(descriptor_of(o), o.call, o.input, o.output);
  }
  Ref<Work> reduce(const ReduceOptions& o) override {
    check_reduce(o, 0, 1);
    return reduce_alone(descriptor_of(o), o.call, o.input, o.output);
  }
  Ref<Work> gather(const GatherOptions& o) override {
    return gather_alone(OpKind::kGather, as_parts(o, {&o.count, 1}));
  }
  Ref<Work> gatherv(const GathervOptions& o) override { return gather_alone(OpKind::kGatherv, o); }
  Ref<Work> scatter(const ScatterOptions& o) override {
    return scatter_alone(OpKind::kScatter, as_parts(o, {&o.count, 1}));
  }
  Ref<Work> scatterv(const ScattervOptions& o) override {
    return scatter_alone(OpKind::kScatterv, o);
  }
  Ref<Work> all_to_all(const AllToAllOptions& o) override {
    return all_to_all_alone(OpKind::kAllToAll, as_parts(o, {&o.count, 1}));
  }
  Ref<Work> all_to_allv(const AllToAllvOptions& o) override {
    return all_to_all_alone(OpKind::kAllToAllv, o);
  }
  Ref<Work> all_gatherv(const AllGathervOptions& o) override {
    const std::size_t count = check_parts(OpKind::kAllGatherv, o, 0, 1);
    return copy_alone({.count = count, .op = OpKind::kAllGatherv, .dtype = o.dtype}, o.call,
                      o.input, o.output);
  }
  Ref<Work> reduce_scatterv(const ReduceScattervOptions& o) override {
    const std::size_t count = check_parts(OpKind::kReduceScatterv, o, 0, 1);
    return reduce_alone(
        {.count = count, .op = OpKind::kReduceScatterv, .dtype = o.dtype, .reduce = o.op}, o.call,
        o.input, o.output);
  }
  Ref<Work> barrier(const BarrierOptions& o) override {
    return begin({.op = OpKind::kBarrier}, o.call);
  }
  Ref<Work> send(const SendOptions& o) override {
    check_peer({.count = o.count, .op = OpKind::kSend}, o.peer, 0, 1, o.buffer);
    return begin({.op = OpKind::kSend}, o.call);
  }
  Ref<Work> recv(const RecvOptions& o) override {
    check_peer({.count = o.count, .op = OpKind::kRecv}, o.peer, 0, 1, o.buffer);
    return begin({.op = OpKind::kRecv}, o.call);
  }

  Ref<ProcessGroup> split(const SplitOptions& o) override {
    const SplitPlan plan = plan_split(*this, o, next_split_++);
    return plan.rank < 0 ? nullptr : make_solo_group(plan.name);
  }

  void abort(std::string_view reason) noexcept override {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    try {
      error_ = std::make_exception_ptr(Error(
          ErrorKind::kAborted, fmt::format("group '{}' was aborted by rank 0: {}", name_, reason)));
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  std::exception_ptr error() const noexcept override {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  Ref<Work> begin(const Descriptor& what, const CallOptions& call) {
    check_call(what, call, "solo");
    if (const std::exception_ptr cause = error()) std::rethrow_exception(cause);
    return make_ref<DoneWork>("copy");
  }
  Ref<Work> copy_alone(const Descriptor& what, const CallOptions& call, const void* input,
                       void* output) {
    Ref<Work> work = begin(what, call);
    const std::size_t bytes = what.count * size_of(what.dtype);
    if (input != output && bytes > 0) std::memcpy(output, input, bytes);
    return work;
  }
  Ref<Work> gather_alone(OpKind op, const GathervOptions& o) {
    check_parts(op, o, 0, 1);
    return copy_alone({.count = o.count, .root = o.root, .op = op, .dtype = o.dtype}, o.call,
                      o.input, o.output);
  }
  Ref<Work> scatter_alone(OpKind op, const ScattervOptions& o) {
    check_parts(op, o, 0, 1);
    return copy_alone({.count = o.count, .root = o.root, .op = op, .dtype = o.dtype}, o.call,
                      o.input, o.output);
  }
  Ref<Work> all_to_all_alone(OpKind op, const AllToAllvOptions& o) {
    check_parts(op, o, 0, 1);
    return copy_alone({.count = o.send_counts.front(), .op = op, .dtype = o.dtype}, o.call, o.input,
                      o.output);
  }
  Ref<Work> reduce_alone(const Descriptor& what, const CallOptions& call, const void* input,
                         void* output) {
    Ref<Work> work = begin(what, call);
    // combine() turns each bool into 0 or 1, as a reduction over several ranks does.
    const void* const shares[] = {input};
    combine(what.dtype, what.reduce, output, shares, what.count);
    return work;
  }

  const std::string name_;
  mutable std::mutex mutex_;
  std::exception_ptr error_;
  std::atomic<std::uint64_t> next_split_{1};
};

}  // namespace

Ref<ProcessGroup> make_solo_group(std::string name) {
  return make_ref<SoloGroup>(std::move(name));
}

}  // namespace dl::collectives
