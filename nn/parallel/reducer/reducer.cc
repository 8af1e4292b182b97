#include "nn/parallel/reducer/reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/autograd/graph/leaf.h"
#include "core/device/cuda/graph.h"
#include "core/device/cuda/watched_error.h"
#include "core/profiler/span.h"
#include "core/tensor/factories.h"
#include "nn/parallel/reducer/broadcast.h"

namespace dl::nn::parallel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kNamesQuoted = 8;

BucketItem item_of(const Tensor& parameter) {
  return {static_cast<std::size_t>(parameter.numel()), parameter.dtype(), parameter.device()};
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

// Writes zeros to the gradient's memory.
void give_zeros(const Tensor& parameter) {
  parameter.set_grad(zeros({}, {.dtype = parameter.dtype(), .device = parameter.device()})
                         .expand(parameter.sizes()));
}

// The source of the gradients' error. On a device, an error of the group arrives after streams
// have used the gradients, so it affects all data on the device.
Ref<FirstError> error_for(const StateDict& parameters, const collectives::ProcessGroup& group) {
  if (parameters.empty() || !parameters.front().tensor.is_cuda()) return make_ref<FirstError>();
  const int device = parameters.front().tensor.device().index;
  const auto behind = make_ref<cuda::WatchedError>(device, group.background_error());
  // Include an earlier error of the device, of another Reducer for example. These parameters may be
  // that Reducer's, unless they were loaded since.
  if (const std::exception_ptr before = cuda::error_on(device)) behind->set(before);
  return make_ref<FirstError>(behind);
}

}  // namespace

Reducer::Reducer(StateDict parameters, Ref<collectives::ProcessGroup> group, ReducerOptions options)
    : group_(std::move(group)), options_(options), failed_(error_for(parameters, *group_)) {
  for (NamedTensor& entry : parameters) {
    items_.push_back(item_of(entry.tensor));
    slots_.push_back({.name = std::move(entry.name), .parameter = std::move(entry.tensor)});
  }
  std::vector<std::size_t> order(slots_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  make_buckets(plan_buckets(items_, order, options_.caps));
  const Device device = slots_.empty() ? Device{} : slots_.front().parameter.device();
  if (device.type == DeviceType::kCUDA && group_->size() > 1) {
    clock_ = std::make_unique<DeviceClock>(device.index);
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Tensor& parameter = slots_[i].parameter;
    slots_[i].hook = on_grad_ready(
        parameter, [this, i] { on_ready(i); },
        [this](const std::exception_ptr& error) { on_failed(error); });
    set_grad_guard(parameter, [this, i] { check_no_reduce_in_flight(i); });
    set_grad_error(parameter, failed_);
  }
}

Reducer::~Reducer() {
  drop_broken_capture();
  if (in_pass_ && !failed_->get()) {
    constexpr std::string_view kText =
        "DistributedDataParallel was destroyed in the middle of a backward pass";
    tell_others(kText);
    failed_->set(std::make_exception_ptr(Error(ErrorKind::kInvalidArgument, std::string(kText))));
  }
  for (const Slot& slot : slots_) {
    remove_grad_ready(slot.parameter, slot.hook);
    set_grad_guard(slot.parameter, nullptr);
    set_grad_destination(slot.parameter, Tensor());
    if (slot.parameter.is_cuda()) continue;  // an error may still arrive
    if (failed_->get()) slot.parameter.zero_grad();
    clear_grad_error(slot.parameter);
  }
}

std::vector<BucketPlan> Reducer::plan() const {
  std::vector<BucketPlan> plan;
  for (const Bucket& bucket : buckets_) plan.push_back(bucket.plan);
  return plan;
}

// Fill it with zeros, because the gaps between gradients are reduced, too.
Tensor Reducer::make_memory(const BucketPlan& plan) const {
  const Shape shape{static_cast<std::int64_t>(plan.elements)};
  if (group_->size() == 1 || plan.device.type == DeviceType::kCUDA)
    return zeros(shape, {.dtype = plan.dtype, .device = plan.device});
  const Ref<collectives::SymmetricMemory> memory =
      group_->allocate_symmetric(plan.elements * size_of(plan.dtype));
  return from_blob(memory->data(), shape, plan.dtype, memory);
}

void Reducer::make_buckets(std::vector<BucketPlan> plan) {
  std::vector<Bucket> buckets;
  for (BucketPlan& p : plan) {
    const Tensor memory = make_memory(p);
    for (const BucketPlan::Place& place : p.places) {
      Slot& slot = slots_[place.item];
      slot.bucket = buckets.size();
      const Shape& shape = slot.parameter.sizes();
      set_grad_destination(slot.parameter, as_strided(memory, shape, contiguous_strides(shape),
                                                      static_cast<std::int64_t>(place.offset)));
    }
    buckets.push_back({.plan = std::move(p), .memory = memory});
  }
  buckets_ = std::move(buckets);
}

template <typename Step>
void Reducer::guarded(const Step& step) {
  try {
    step();
  } catch (...) {
    if (!captured_) failed_->set(std::current_exception());
    throw;
  }
}

void Reducer::drop_broken_capture() noexcept {
  if (!in_pass_ || !captured_ || cuda::capturing()) return;
  in_pass_ = false;
  captured_ = false;
  for (Bucket& bucket : buckets_) bucket.work = nullptr;
}

void Reducer::check() {
  drop_broken_capture();
  failed_->check();
  DL_CHECK(!in_pass_, kInvalidArgument,
           "DistributedDataParallel: it was called in the middle of a backward pass, in which its "
           "gradients are under way; call it when backward() has returned");
}

void Reducer::tell_others(std::string_view text) noexcept {
  if (!std::exchange(told_, true)) group_->abort(text);
}

void Reducer::on_failed(const std::exception_ptr& error) {
  // The captured work has not run, so all ranks can discard it. No rank needs to be told.
  if (cuda::capturing()) return;
  drop_broken_capture();
  if (told_) return;
  const std::string text = fmt::format(
      "DistributedDataParallel: the last backward pass did not end: {}", text_of(error));
  // If the group has an error, the other ranks know it already.
  if (!group_->error()) tell_others(text);
  wait_for_started_buckets();
  failed_->set(std::make_exception_ptr(
      Error(ErrorKind::kAborted, text + "; the gradients are not averaged, and the other ranks "
                                        "have been told: end the program after an error in "
                                        "backward")));
}

// After abort() returns, a group's started operations may still use the gradients' memory for a
// short time.
void Reducer::wait_for_started_buckets() noexcept {
  for (const Bucket& bucket : buckets_) {
    if (!bucket.work || bucket.memory.is_cuda()) continue;
    try {
      bucket.work->synchronize();
    } catch (const std::exception&) {
      // The pass has failed already, with its own error.
    }
  }
}

// Called before a gradient is written, because the bucket of a final gradient may be in flight.
void Reducer::check_no_reduce_in_flight(std::size_t i) {
  drop_broken_capture();
  if (!in_pass_ || !slots_[i].ready) return;
  failed_->check();
  guarded([&] { check_not_nested(i); });
}

void Reducer::check_not_nested(std::size_t i) const {
  const bool is_nested =
      in_pass_ ? pass_ != backward_pass() : std::ranges::any_of(slots_, [](const Slot& slot) {
        return enclosing_backward_uses(slot.parameter);
      });
  DL_CHECK(!is_nested, kInvalidArgument,
           "DistributedDataParallel: a backward pass inside another one (in a hook) brings a "
           "gradient of {}, and the outer one uses parameters of the model, too; run one after the "
           "other",
           slots_[i].name);
}

void Reducer::on_ready(std::size_t i) {
  drop_broken_capture();
  failed_->check();
  if (options_.find_unused_parameters) {
    cuda::refuse_in_capture(
        "DistributedDataParallel: with find_unused_parameters a pass counts on the host which "
        "parameters it uses, and cannot be captured");
  }
  // A nested pass may accumulate if no all-reduce of gradients is in flight.
  if (in_pass_ || !is_paused()) guarded([&] { check_not_nested(i); });
  Slot& slot = slots_[i];
  const bool has_grad = slot.parameter.grad().defined();
  slot.used = slot.used || has_grad;
  if (is_paused()) return;
  if (!in_pass_) begin_pass();
  // Backward reached the parameter, but no gradient came: treat it as unused.
  if (!has_grad && options_.find_unused_parameters) return;
  guarded([&] {
    if (!has_grad) give_zeros(slot.parameter);
    ready_order_.push_back(i);
    mark_ready(i);
    start_complete_buckets();
  });
}

void Reducer::begin_pass() {
  captured_ = cuda::capturing();
  if (captured_) {
    DL_CHECK(rebuilt_, kInvalidArgument,
             "DistributedDataParallel: its first pass cannot be captured; run one pass before the "
             "capture");
  }
  on_backward_end([this, failed = failed_] {
    failed->check();  // the reducer may have been destroyed
    guarded([this] { end_pass(); });
  });
  in_pass_ = true;
  pass_ = backward_pass();
  if (clock_ && !captured_) {
    read_clock(false);
    clock_->drop();
  }
  next_bucket_ = 0;
  ready_order_.clear();
  last_step_ = {};
  for (Slot& slot : slots_) slot.ready = false;
  for (Bucket& bucket : buckets_) bucket.pending = bucket.plan.places.size();
}

void Reducer::mark_ready(std::size_t i) {
  Slot& slot = slots_[i];
  slot.ready = true;
  --buckets_[slot.bucket].pending;
}

void Reducer::start_complete_buckets() {
  for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_].pending == 0; ++next_bucket_) {
    Bucket& bucket = buckets_[next_bucket_];
    last_step_.bytes += bucket.memory.nbytes();
    if (group_->size() == 1) continue;
    bucket.begin = Clock::now();
    if (clock_ && !captured_) clock_->start();
    bucket.work = start(bucket);
  }
}

// Starts the all-reduce of a full bucket.
Ref<collectives::Work> Reducer::start(Bucket& bucket) {
  return group_->all_reduce(
      {.input = bucket.memory.data_ptr(),
       .output = bucket.memory.data_ptr(),
       .count = static_cast<std::size_t>(bucket.memory.numel()),
       .dtype = bucket.memory.dtype(),
       .op = collectives::ReduceOp::kAvg,
       .call = {.stream = stream_of(bucket.memory), .keep_alive = bucket.memory.storage()}});
}

void Reducer::end_pass() {
  const std::vector<Unused> unused = contribute_unused();
  start_complete_buckets();
  wait_for_buckets();
  restore_unused(unused);
  for (Slot& slot : slots_) slot.used = false;
  if (captured_) {
    last_step_ = {};
  } else {
    last_step_.steps = 1;
    total_ += last_step_;
  }
  if (!rebuilt_) rebuild();
  in_pass_ = false;
}

std::vector<Reducer::Unused> Reducer::contribute_unused() {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].ready) missing.push_back(i);
  }
  if (!missing.empty() && !options_.find_unused_parameters) refuse_unused(missing);
  std::vector<Unused> unused;
  for (const std::size_t i : missing) {
    // This rank contributes the gradient of an earlier pass, as if this pass had added zeros to it.
    const Tensor& parameter = slots_[i].parameter;
    const Tensor grad = parameter.grad();
    unused.push_back({i, grad.defined() ? grad.clone() : Tensor()});
    if (!grad.defined()) give_zeros(parameter);
    mark_ready(i);
  }
  return unused;
}

void Reducer::refuse_unused(const std::vector<std::size_t>& missing) {
  std::string names;
  for (std::size_t i = 0; i < std::min(missing.size(), kNamesQuoted); ++i) {
    names += (i == 0 ? "" : ", ") + slots_[missing[i]].name;
  }
  if (missing.size() > kNamesQuoted) {
    names += fmt::format(" and {} more", missing.size() - kNamesQuoted);
  }
  const std::string text = fmt::format(
      "DistributedDataParallel: backward gave no gradient to {} of {} parameters on rank {}: {}; "
      "the loss must depend on every parameter. Set find_unused_parameters = true if a pass may "
      "leave some out; call requires_grad_(false) on what is never trained before wrapping the "
      "model",
      missing.size(), slots_.size(), group_->rank(), names);
  tell_others(text);
  throw Error(ErrorKind::kInvalidArgument, text);
}

void Reducer::wait_for_buckets() {
  const bool by_device = clock_ && !captured_;
  if (by_device) clock_->computed();
  std::vector<Interval> under_way;
  const profiler::Span span("DistributedDataParallel.wait", profiler::Category::kCommunication);
  const Clock::time_point begin = Clock::now();
  for (Bucket& bucket : buckets_) {
    if (!bucket.work) continue;
    bucket.work->wait(stream_of(bucket.memory));
    if (by_device) clock_->end(*bucket.work);
    under_way.push_back({bucket.begin, bucket.work->completed_at().value_or(Clock::now())});
    bucket.work = nullptr;
    bucket.memory.bump_version();
  }
  if (by_device) clock_->reduced();
  if (under_way.empty() || clock_) return;
  last_step_.exposed = Clock::now() - begin;
  last_step_.communication = union_length(under_way);
}

void Reducer::read_clock(bool wait) {
  while (const std::optional<DeviceClock::Times> times = clock_->take(wait)) {
    last_step_.communication = times->communication;
    last_step_.exposed = times->exposed;
    total_.communication += times->communication;
    total_.exposed += times->exposed;
  }
}

const OverlapStats& Reducer::last_step() {
  if (clock_) read_clock(true);
  return last_step_;
}

const OverlapStats& Reducer::total() {
  if (clock_) read_clock(true);
  return total_;
}

void Reducer::reset_total() {
  if (clock_) clock_->forget();
  total_ = {};
}

// After the all-reduce: if some rank used a parameter, it keeps the average on all ranks. If no
// rank used it, it gets its earlier gradient back.
void Reducer::restore_unused(const std::vector<Unused>& unused) {
  if (!options_.find_unused_parameters) return;
  std::vector<std::uint8_t> used(slots_.size());
  std::ranges::transform(slots_, used.begin(), [](const Slot& slot) { return slot.used; });
  if (group_->size() > 1) {
    group_
        ->all_reduce({.input = used.data(),
                      .output = used.data(),
                      .count = used.size(),
                      .dtype = DType::kU8,
                      .op = collectives::ReduceOp::kMax})
        ->synchronize();
  }
  for (const Unused& entry : unused) {
    if (used[entry.slot] != 0) continue;
    const Tensor& parameter = slots_[entry.slot].parameter;
    if (entry.kept.defined()) {
      parameter.set_grad(entry.kept);
    } else {
      parameter.zero_grad();
    }
  }
}

void Reducer::rebuild() {
  rebuilt_ = true;
  // Parameters that this pass did not reach come last, so that no bucket waits for them.
  std::vector<std::int64_t> order(ready_order_.begin(), ready_order_.end());
  std::vector<bool> reached(slots_.size());
  for (const std::size_t i : ready_order_) reached[i] = true;
  for (std::size_t i = slots_.size(); i-- > 0;) {
    if (!reached[i]) order.push_back(static_cast<std::int64_t>(i));
  }
  if (group_->size() > 1) {
    group_->broadcast({.buffer = order.data(), .count = order.size(), .dtype = DType::kI64})
        ->synchronize();
  }
  const std::vector<std::size_t> agreed(order.begin(), order.end());
  make_buckets(plan_buckets(items_, agreed, options_.caps));
}

}  // namespace dl::nn::parallel
