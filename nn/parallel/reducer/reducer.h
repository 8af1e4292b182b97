// Reducer: averages gradients over the ranks of a group while backward computes the next ones.
//
// Gradients live in buckets for good (set_grad_destination). When the last gradient of a bucket is
// final, the bucket's all-reduce starts, strictly in the order of the buckets, which is the same on
// all ranks; the end of backward waits for what is still under way. The buckets are made in reverse
// registration order and rebuilt once, after the first synchronised pass, in the order in which
// rank 0's gradients were ready.
//
// Buckets lie in symmetric memory where the group has it (symmetric_memory.h); the averages have
// the same bits either way.
//
// Ownership: holds handles to the parameters and the group, owns the buckets; an all-reduce under
// way holds its bucket. Destroying a Reducer leaves the gradients where they are, but for those
// that it could not average. Errors: whatever goes wrong in a pass is thrown by backward(), and
// again by every later use and by optimizers. On a device the error of an all-reduce comes when
// backward is long over: from then on nothing is read from the device
// (core/device/cuda/watched_error.h) as long as the parameters live that were trained with it. A
// backward pass that uses a parameter and ends with an exception aborts the group before
// backward() throws, wherever in the pass the exception comes from, also while paused: the other
// ranks wait for buckets that will not come, and must not get those of a later pass. A pass that
// ends without all gradients does so, too. A backward pass inside another one (started by a hook)
// is a pass of its own; if the outer one uses parameters as well, it is an error.
// Thread-safety: none; callbacks run on the thread that called backward().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/process_group.h"
#include "core/tensor/tensor.h"
#include "nn/parallel/reducer/bucket_plan.h"
#include "nn/parallel/reducer/device_clock.h"
#include "nn/parallel/reducer/overlap.h"
#include "nn/serialize/state_dict.h"

namespace dl::nn::parallel {

struct ReducerOptions {
  BucketCaps caps{};
  bool find_unused_parameters = false;
};

class Reducer {
 public:
  // Leaves that require gradients, the same on all ranks (check_same). An error that their device
  // has from another Reducer is this one's, too: load the parameters before.
  Reducer(StateDict parameters, Ref<collectives::ProcessGroup> group, ReducerOptions options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Throws the first cause if the reducer has failed, and kInvalidArgument in the middle of a pass.
  void check();

  // While paused, gradients only accumulate. Calls nest.
  void pause() noexcept { ++paused_; }
  void resume() noexcept { --paused_; }
  bool is_paused() const noexcept { return paused_ > 0; }

  // On a CUDA device these wait until it has done what they tell of. Launches of captured steps are
  // not in them.
  const OverlapStats& last_step();
  const OverlapStats& total();
  void reset_total();

  // The plan in use, for tests and reports.
  std::vector<BucketPlan> plan() const;

 private:
  struct Slot {
    std::string name;
    Tensor parameter;
    std::size_t bucket = 0;
    std::uint64_t hook = 0;
    bool ready = false;  // in this pass
    bool used = false;   // got a gradient since the last synchronisation
  };
  struct Bucket {
    BucketPlan plan;
    Tensor memory;
    std::size_t pending = 0;  // gradients that are not final in this pass
    Ref<collectives::Work> work{};
    std::chrono::steady_clock::time_point begin{};
  };
  // A parameter that this rank's pass did not reach.
  struct Unused {
    std::size_t slot;
    Tensor kept;  // its gradient before the pass, undefined where there was none
  };

  // Collective.
  void make_buckets(std::vector<BucketPlan> plan);
  Tensor make_memory(const BucketPlan& plan) const;
  void on_ready(std::size_t slot);
  // The backward pass that uses parameters ends with this exception.
  void on_failed(const std::exception_ptr& error);
  void let_buckets_end() noexcept;
  void check_not_travelling(std::size_t i);
  void begin_pass();
  // Refuses a gradient that another backward pass brings than the one under way.
  void check_not_nested(std::size_t slot) const;
  // A pass that a capture recorded and an exception ended: no rank waits for it.
  void drop_broken_capture() noexcept;
  void mark_ready(std::size_t slot);
  void start_complete_buckets();
  Ref<collectives::Work> start(Bucket& bucket);
  void end_pass();
  std::vector<Unused> contribute_unused();
  void wait_for_buckets();
  void settle_unused(const std::vector<Unused>& unused);
  void rebuild();
  [[noreturn]] void refuse_unused(const std::vector<std::size_t>& missing);
  // Aborts the group, once.
  void tell_others(std::string_view text) noexcept;
  // Adds what the device has passed.
  void read_clock(bool wait);
  // Runs a step of a pass; its error becomes the reducer's.
  template <typename Step>
  void guarded(const Step& step);

  Ref<collectives::ProcessGroup> group_;
  ReducerOptions options_;
  std::vector<Slot> slots_;
  std::vector<BucketItem> items_;
  std::vector<Bucket> buckets_;
  std::size_t next_bucket_ = 0;  // the first that has not started in this pass
  std::vector<std::size_t> ready_order_;
  int paused_ = 0;
  bool in_pass_ = false;
  std::uint64_t pass_ = 0;  // the backward pass that it began in
  bool told_ = false;       // the group was aborted by this reducer
  bool captured_ = false;   // this pass, into a CUDA graph
  bool rebuilt_ = false;
  const Ref<FirstError> failed_;  // the parameters have it, too
  OverlapStats last_step_;
  OverlapStats total_;
  std::unique_ptr<DeviceClock> clock_;  // of buckets on a CUDA device
};

}  // namespace dl::nn::parallel
