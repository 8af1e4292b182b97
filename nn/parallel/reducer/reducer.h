// Reducer: averages gradients over the ranks of a group while backward computes the next ones.
//
// Gradients are always stored in buckets (set_grad_destination). When the last gradient of a bucket
// is final, the bucket's all-reduce may start. All-reduces start strictly in the order of the
// buckets, which is the same on all ranks. The end of backward waits for all-reduces in
// flight. The first buckets follow the reverse order of registration. After the first synchronised
// pass they are rebuilt once, in the order in which rank 0's gradients were ready.
//
// Buckets are in symmetric memory if the group has it (symmetric_memory.h); the averages have the
// same bits either way.
//
// Ownership: holds handles to the parameters and the group, and owns the buckets. An all-reduce in
// flight holds its bucket. Destroying a Reducer keeps the gradients, except those that it could not
// average.
//
// Errors: backward() throws the error of its pass, and every later use of the Reducer or of an
// optimizer throws it again. On a device, the error of an all-reduce may arrive after backward()
// has returned. From then on item(), cpu() and synchronize() throw while these parameters exist
// (core/device/cuda/watched_error.h).
//
// If a backward pass that uses a parameter ends with an exception, the Reducer aborts the group
// before backward() throws, also while paused. Otherwise the other ranks would wait for buckets
// that never come, or receive those of a later pass. A pass that ends without all gradients also
// aborts the group. A hook may start a backward pass inside another one; it is an error if both use
// parameters.
//
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

#include "collectives/api/process_group.h"
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
  // `parameters`: leaves that require gradients, the same on all ranks (check_same). If another
  // Reducer's error has made the data on their device garbage, this Reducer throws that error too,
  // unless the parameters were loaded again before.
  Reducer(StateDict parameters, Ref<collectives::ProcessGroup> group, ReducerOptions options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Throws the first cause if the reducer has failed, and kInvalidArgument during a backward pass.
  void check();

  // While paused, gradients only accumulate. Calls nest.
  void pause() noexcept { ++paused_; }
  void resume() noexcept { --paused_; }
  bool is_paused() const noexcept { return paused_ > 0; }

  // Times of the last step, and of all steps. On CUDA these functions wait until the device has
  // executed the steps. Launches of captured steps are not counted.
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
    bool used = false;   // received a gradient since the last synchronisation
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
    Tensor kept;  // its gradient before the pass, undefined if there was none
  };

  // Collective.
  void make_buckets(std::vector<BucketPlan> plan);
  Tensor make_memory(const BucketPlan& plan) const;
  void on_ready(std::size_t slot);
  // Called when a backward pass that uses parameters ends with this exception.
  void on_failed(const std::exception_ptr& error);
  void wait_for_started_buckets() noexcept;
  void check_no_reduce_in_flight(std::size_t i);
  void begin_pass();
  // Throws if the gradient comes from another backward pass than the current one.
  void check_not_nested(std::size_t slot) const;
  // Discards a captured pass that has ended with an exception; no rank waits for it.
  void drop_broken_capture() noexcept;
  void mark_ready(std::size_t slot);
  void start_complete_buckets();
  Ref<collectives::Work> start(Bucket& bucket);
  void end_pass();
  std::vector<Unused> contribute_unused();
  void wait_for_buckets();
  void restore_unused(const std::vector<Unused>& unused);
  void rebuild();
  [[noreturn]] void refuse_unused(const std::vector<std::size_t>& missing);
  // Aborts the group, once.
  void tell_others(std::string_view text) noexcept;
  // Adds the times of finished steps.
  void read_clock(bool wait);
  // Runs a part of a pass. If it throws, the reducer has failed with that error.
  template <typename Step>
  void guarded(const Step& step);

  Ref<collectives::ProcessGroup> group_;
  ReducerOptions options_;
  std::vector<Slot> slots_;
  std::vector<BucketItem> items_;
  std::vector<Bucket> buckets_;
  std::size_t next_bucket_ = 0;  // the first bucket that has not started in this pass
  std::vector<std::size_t> ready_order_;
  int paused_ = 0;
  bool in_pass_ = false;
  std::uint64_t pass_ = 0;  // number of the backward pass (backward_pass())
  bool told_ = false;       // this reducer has aborted the group
  bool captured_ = false;   // this pass is captured into a CUDA graph
  bool rebuilt_ = false;
  const Ref<FirstError> failed_;  // also attached to the parameters
  OverlapStats last_step_;
  OverlapStats total_;
  std::unique_ptr<DeviceClock> clock_;  // of buckets on a CUDA device
};

}  // namespace dl::nn::parallel
