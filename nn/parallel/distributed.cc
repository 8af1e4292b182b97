#include "nn/parallel/distributed.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "core/autograd/grad_mode.h"
#include "core/profiler/span.h"
#include "core/tape/recorder.h"
#include "nn/parallel/model_check.h"
#include "nn/parallel/reducer/broadcast.h"
#include "nn/parallel/reducer/reducer.h"

namespace dl::nn::parallel {
namespace {

constexpr std::string_view kName = "DistributedDataParallel";

std::size_t bytes_of(double mb, std::string_view option) {
  constexpr double kMostMb = 1024 * 1024;
  DL_CHECK(std::isfinite(mb) && mb > 0 && mb <= kMostMb, kInvalidArgument,
           "{}: {} is {}, wanted a number of MiB above 0 and at most {}", kName, option, mb,
           kMostMb);
  return static_cast<std::size_t>(mb * 1024 * 1024);
}

ReducerOptions reducer_options(const DistributedDataParallelOptions& options) {
  return {.caps = {.first = bytes_of(options.first_bucket_mb, "first_bucket_mb"),
                   .others = bytes_of(options.bucket_cap_mb, "bucket_cap_mb")},
          .find_unused_parameters = options.find_unused_parameters};
}

std::string entry_of(std::string_view kind, const NamedTensor& entry) {
  const Tensor& tensor = entry.tensor;
  return fmt::format("{} {} {}{}{}", kind, entry.name, name_of(tensor.dtype()),
                     tensor.sizes().str(), tensor.requires_grad() ? "" : ", not trained");
}

// Describes everything that must be the same on every rank.
std::vector<std::string> description(const Module& model,
                                     const DistributedDataParallelOptions& options) {
  std::vector<std::string> entries;
  for (const NamedTensor& p : model.named_parameters()) entries.push_back(entry_of("parameter", p));
  for (const NamedTensor& b : model.named_buffers()) {
    entries.push_back(
        fmt::format("buffer {} {}{}", b.name, name_of(b.tensor.dtype()), b.tensor.sizes().str()));
  }
  entries.push_back(fmt::format("option first_bucket_mb = {}", options.first_bucket_mb));
  entries.push_back(fmt::format("option bucket_cap_mb = {}", options.bucket_cap_mb));
  entries.push_back(
      fmt::format("option find_unused_parameters = {}", options.find_unused_parameters));
  entries.push_back(fmt::format("option broadcast_buffers = {}", options.broadcast_buffers));
  return entries;
}

// Checks the model itself and against those of the other ranks, and copies rank 0's tensors to all
// ranks. Returns the parameters that require gradients.
StateDict prepare(const Module& model, const Ref<collectives::ProcessGroup>& group,
                  const DistributedDataParallelOptions& options) {
  DL_CHECK(group, kInvalidArgument, "{}: the process group is null; make one first", kName);
  check_same(*group, description(model, options), "DistributedDataParallel: the ranks differ",
             "build the same model with the same options on every rank");
  StateDict trained;
  std::vector<Tensor> all;
  Device device{};
  for (NamedTensor& p : model.named_parameters()) {
    if (all.empty()) device = p.tensor.device();
    DL_CHECK(p.tensor.device() == device, kInvalidArgument,
             "{}: parameter {} is on {}, those before it on {}; move the model to one device",
             kName, p.name, p.tensor.device().str(), device.str());
    all.push_back(p.tensor);
    if (p.tensor.requires_grad()) trained.push_back(std::move(p));
  }
  DL_CHECK(!trained.empty(), kInvalidArgument,
           "{}: no parameter of {} requires gradients; there is nothing to average", kName,
           model.type_name());
  for (const Tensor& b : model.buffers()) all.push_back(b);
  broadcast_tensors(*group, all);
  return trained;
}

}  // namespace

NoSync::NoSync(Reducer& reducer) noexcept : reducer_(&reducer) {
  reducer_->pause();
}

NoSync::~NoSync() {
  if (reducer_ != nullptr) reducer_->resume();
}

DistributedDataParallel::DistributedDataParallel(Module& model,
                                                 Ref<collectives::ProcessGroup> group,
                                                 DistributedDataParallelOptions options)
    : model_(model),
      group_(std::move(group)),
      options_(options),
      buffers_(model.buffers()),
      // Braces evaluate from left to right, so prepare() runs first: an option that is bad on one
      // rank only is then a mismatch on all ranks.
      reducer_(new Reducer{prepare(model, group_, options), group_, reducer_options(options)}) {}

DistributedDataParallel::~DistributedDataParallel() = default;

const OverlapStats& DistributedDataParallel::last_overlap() {
  return reducer_->last_step();
}
const OverlapStats& DistributedDataParallel::overlap() {
  return reducer_->total();
}
void DistributedDataParallel::reset_overlap() {
  reducer_->reset_total();
}

std::vector<BucketPlan> DistributedDataParallel::bucket_plan() const {
  return reducer_->plan();
}

void DistributedDataParallel::begin_forward() {
  reducer_->check();
  if (ThreadWatch* const watch = dl::detail::thread_watch) [[unlikely]] {
    watch->needs(
        reducer_.get(),
        [reducer = reducer_.get(), paused = reducer_->is_paused()] {
          return reducer->is_paused() == paused;
        },
        [] {});
  }
  if (options_.broadcast_buffers && !buffers_.empty() && model_.is_training() &&
      is_grad_enabled() && !reducer_->is_paused()) {
    broadcast_tensors(*group_, buffers_);
  }
}

Tensor DistributedDataParallel::forward(const Tensor& input) {
  const profiler::Span span("DistributedDataParallel.forward");
  if (tape::Recorder* const recorder = tape::Recorder::current()) [[unlikely]] {
    recorder->run_host("DistributedDataParallel", this, [this, records = is_grad_enabled()] {
      const AutoGradMode mode(records);
      begin_forward();
    });
  } else {
    begin_forward();
  }
  return model_(input);
}

}  // namespace dl::nn::parallel
