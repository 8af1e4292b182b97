#include "nn/compile/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/base/log/warn_once.h"
#include "core/base/text/number.h"
#include "core/device/parallel.h"
#include "core/tape/arrangement.h"
#include "core/tape/tape.h"
#include "nn/compile/cuda_graph.h"

namespace dl::detail {
namespace {

using Clock = std::chrono::steady_clock;

// A function may make things in its first call (an optimizer's state, a cache), so a recording may
// differ from the one before so often.
constexpr int kMostReplacements = 3;

constexpr std::string_view kEager = "eager";
constexpr std::string_view kTape = "tape";
constexpr std::string_view kCudaGraph = "cuda_graph";

struct Form {
  Shape sizes;
  Strides strides;
  DType dtype;
  bool operator==(const Form&) const = default;
};

// What a tape or a graph was recorded for.
struct Setting {
  std::string_view backend;
  Device device;
  std::vector<Form> inputs;
  int threads = 0;
  bool records_gradients = false;
  AutocastState autocast;
  bool operator==(const Setting&) const = default;
};

Setting setting_of(std::span<const Tensor> inputs, std::string_view backend, Device device) {
  Setting setting{.backend = backend,
                  .device = device,
                  .inputs = {},
                  .threads = backend == kTape ? num_threads() : 0,
                  .records_gradients = is_grad_enabled(),
                  .autocast = autocast_state};
  for (const Tensor& input : inputs) {
    setting.inputs.push_back({input.sizes(), input.strides(), input.dtype()});
  }
  return setting;
}

bool has_backward(const tape::Recording& recording) {
  return std::ranges::any_of(recording.steps,
                             [](const auto& step) { return step->name() == tape::kGradientStep; });
}

std::vector<std::uint32_t> versions_of(const std::vector<Tensor>& tensors) {
  std::vector<std::uint32_t> versions;
  for (const Tensor& tensor : tensors) versions.push_back(tensor.version());
  return versions;
}

// Why inputs, which are copies of the caller's, were changed since they had these versions; empty:
// none was.
std::string change_of(const std::vector<Tensor>& inputs,
                      const std::vector<std::uint32_t>& versions) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].version() != versions[i])
      return fmt::format("input {} is changed in place", i + 1);
  }
  return "";
}

// The next run of the tape, and the next launch of the graph, writes its outputs again.
std::vector<Tensor> copies(const std::vector<Tensor>& outputs) {
  const NoGradGuard no_grad;
  std::vector<Tensor> result;
  for (const Tensor& output : outputs) result.push_back(output.clone());
  return result;
}

// A tape or a graph casts weights itself, and the program must not see its casts, which its runs
// write again: none goes into a call or out of it.
class OwnCasts {
 public:
  OwnCasts() { drop_autocasts(); }
  ~OwnCasts() { drop_autocasts(); }
  OwnCasts(const OwnCasts&) = delete;
  OwnCasts& operator=(const OwnCasts&) = delete;
};

double mib(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

// A tape or a graph, or the calls before there is one.
struct CompiledFunction::Entry {
  bool has_none() const noexcept { return !tape && !graph; }
  bool can_run() const { return tape ? tape->can_run() : graph->can_run(); }

  Setting setting;
  std::vector<Tensor> inputs;   // the tape or the graph reads them
  std::vector<Tensor> outputs;  // and the tape writes these
  std::optional<tape::Tape> tape;
  std::optional<CudaGraph> graph;
  int warmups = 0;  // runs with this setting before a graph's capture
  std::uint64_t arrangement = 0;
  int checks_left = 0;
  int replacements = 0;
  bool has_run = false;  // the tape has
  std::int64_t calls = 0;
  std::int64_t last_call = 0;  // of the function
};

CompiledFunction::CompiledFunction(CompileOptions options) : options_(std::move(options)) {
  if (options_.backend.empty()) options_.backend = "auto";
  const std::vector<std::string> known = compiler::list_backends();
  DL_CHECK(options_.backend == "auto" || std::ranges::count(known, options_.backend) == 1,
           kInvalidArgument, "compile: backend is '{}', wanted auto, {}, {} or {}",
           options_.backend, known[0], known[1], known[2]);
  DL_CHECK(options_.checks >= 0, kInvalidArgument, "compile: checks is {}, wanted 0 or more",
           options_.checks);
  DL_CHECK(options_.check >= 0, kInvalidArgument, "compile: check is {}, wanted 0 or more",
           options_.check);
  DL_CHECK(options_.warmup_steps >= 1, kInvalidArgument,
           "compile: warmup_steps is {}, wanted 1 or more", options_.warmup_steps);
  if (options_.memory) memory_ = *options_.memory;
}
CompiledFunction::~CompiledFunction() = default;
CompiledFunction::CompiledFunction(CompiledFunction&&) noexcept = default;

std::vector<Tensor> CompiledFunction::call(std::span<const Tensor> inputs,
                                           const Function& function) {
  // The recording of an outer compiled function sees what this one does.
  const bool is_inner = thread_watch != nullptr || cuda::capturing();
  DL_CHECK(!has_ended_ || !options_.whole, kNotImplemented, "compile: {}", why_not_);
  if (!options_.enabled || options_.backend == kEager || has_ended_ || is_inner) {
    return run(inputs, function, {});
  }
  const std::string_view backend = backend_for(inputs);
  if (std::string why = obstacle_in(inputs, backend); !why.empty()) {
    return run(inputs, function, std::move(why));
  }
  Entry* const entry = entry_for(inputs, backend);
  if (entry == nullptr) {
    return run(inputs, function,
               fmt::format("there are {} {} for inputs of other forms", entries_.size(),
                           backend == kTape ? "tapes" : "graphs"));
  }
  const OwnCasts casts;
  if (backend == kCudaGraph) return call_graph(*entry, inputs, function);
  const bool is_due = options_.check > 0 && (entry->calls + 1) % options_.check == 0;
  const bool records =
      !entry->tape || entry->arrangement != tape::arrangement() || entry->checks_left > 0 || is_due;
  return records ? record(*entry, inputs, function) : replay(*entry, inputs);
}

std::string_view CompiledFunction::backend_for(std::span<const Tensor> inputs) const {
  if (options_.backend == kTape) return kTape;
  const bool on_gpu = options_.device ? options_.device->type == DeviceType::kCUDA
                                      : std::ranges::any_of(inputs, [](const Tensor& input) {
                                          return input.defined() && input.is_cuda();
                                        });
  return on_gpu || options_.backend == kCudaGraph ? kCudaGraph : kTape;
}

Device CompiledFunction::device_for(std::span<const Tensor> inputs) const {
  if (options_.device) return *options_.device;
  return inputs.empty() ? Device{} : inputs.front().device();
}

std::string CompiledFunction::obstacle_in(std::span<const Tensor> inputs,
                                          std::string_view backend) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) return fmt::format("input {} is undefined", i + 1);
    if (inputs[i].requires_grad()) return fmt::format("input {} requires gradients", i + 1);
    if (options_.device || inputs[i].device() == inputs[0].device()) continue;
    return fmt::format("input {} is on {}, input 1 on {}; give the option device", i + 1,
                       inputs[i].device().str(), inputs[0].device().str());
  }
  const Device device = device_for(inputs);
  if (backend == kTape && device.type != DeviceType::kCPU) {
    return fmt::format("the backend tape is for CPUs, not for {}", device.str());
  }
  if (backend == kCudaGraph && device.type != DeviceType::kCUDA) {
    return fmt::format("the backend cuda_graph is for GPUs, not for {}", device.str());
  }
  return "";
}

// Gradients may be elsewhere in each call, or there are none: such calls have a tape each. One that
// cannot run now makes room for another.
CompiledFunction::Entry* CompiledFunction::entry_for(std::span<const Tensor> inputs,
                                                     std::string_view backend) {
  Setting setting = setting_of(inputs, backend, device_for(inputs));
  Entry* unfit = nullptr;
  int warmups = 0;
  for (const auto& entry : entries_) {
    if (entry->setting != setting) continue;
    warmups = std::max(warmups, entry->warmups);
    if (entry->has_none() || entry->can_run()) return entry.get();
    if (unfit == nullptr || entry->last_call < unfit->last_call) unfit = entry.get();
  }
  if (entries_.size() >= options_.most_tapes) {
    if (unfit != nullptr) {
      unfit->tape.reset();
      unfit->graph.reset();
    }
    return unfit;
  }
  auto entry = std::make_unique<Entry>();
  entry->setting = std::move(setting);
  entry->warmups = warmups;
  const NoGradGuard no_grad;
  for (const Tensor& input : inputs) {
    const bool is_there = input.device() == entry->setting.device;
    entry->inputs.push_back(is_there ? input.clone() : input.to(entry->setting.device));
  }
  return entries_.emplace_back(std::move(entry)).get();
}

std::vector<Tensor> CompiledFunction::run(std::span<const Tensor> inputs, const Function& function,
                                          std::string why) {
  if (!why.empty()) {
    DL_CHECK(!options_.whole, kNotImplemented, "compile: {}", why);
    if (why_not_.empty()) warn_once("compile: a call runs the function: {}", why);
    why_not_ = std::move(why);
  }
  ++runs_;
  if (!options_.device) return function(inputs);
  std::vector<Tensor> there;
  for (const Tensor& input : inputs) {
    there.push_back(input.to(*options_.device, {.non_blocking = true}));
  }
  return function(there);
}

void CompiledFunction::end(std::string why) {
  has_ended_ = true;
  entries_.clear();
  why_not_ = std::move(why);
  DL_CHECK(!options_.whole, kNotImplemented, "compile: {}", why_not_);
  if (is_first_rank()) warn_once("compile: all calls run the function: {}", why_not_);
}

// The reason is the same on all ranks.
bool CompiledFunction::is_first_rank() const {
  return std::ranges::all_of(peers_, [](const auto& found) { return found.peers->rank() == 0; });
}

std::vector<Tensor> CompiledFunction::record(Entry& entry, std::span<const Tensor> inputs,
                                             const Function& function) {
  {
    const NoGradGuard no_grad;
    for (std::size_t i = 0; i < inputs.size(); ++i) entry.inputs[i].copy_(inputs[i]);
  }
  ++runs_;
  ++entry.calls;
  entry.last_call = runs_ + replays_;
  std::vector<Tensor> results;
  tape::Recording recording;
  {
    const std::vector<std::uint32_t> versions = versions_of(entry.inputs);
    tape::Recorder recorder;
    results = function(entry.inputs);
    {
      const NoGradGuard no_grad;
      for (const Tensor& result : results) recorder.gives(result);
    }
    recording = recorder.finish();
    if (std::string why = change_of(entry.inputs, versions); !why.empty()) {
      recording.refused = std::move(why);
      const NoGradGuard no_grad;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (entry.inputs[i].version() != versions[i]) Tensor(inputs[i]).copy_(entry.inputs[i]);
      }
    }
  }
  const auto start = Clock::now();
  for (std::size_t i = 0; i < results.size() && recording.refused.empty(); ++i) {
    recording.refused = obstacle_in_result(i, results[i], has_backward(recording));
  }
  if (!recording.refused.empty()) {
    end(std::move(recording.refused));
    return results;
  }
  const std::string differs =
      entry.tape ? tape::difference(entry.tape->recording(), recording) : std::string();
  if (entry.tape && differs.empty()) {
    entry.checks_left = std::max(0, entry.checks_left - 1);
    entry.arrangement = tape::arrangement();
    return copies(results);
  }
  const bool is_rearranged = entry.tape && entry.arrangement != tape::arrangement();
  // A tape that has run may have given results that the function would not have given.
  const bool is_too_late = entry.tape && !is_rearranged && entry.has_run;
  if (is_too_late || (entry.tape && !is_rearranged && ++entry.replacements > kMostReplacements)) {
    end(fmt::format("the function does not do the same in each call: {}", differs));
    return results;
  }
  entry.tape.emplace(std::move(recording));
  entry.has_run = false;
  entry.outputs.clear();
  for (const Tensor& result : results) entry.outputs.push_back(result.detach());
  entry.checks_left = options_.checks;
  entry.arrangement = tape::arrangement();
  const std::chrono::duration<double, std::milli> took = Clock::now() - start;
  capture_ms_ += took.count();
  return copies(entry.outputs);
}

std::vector<Tensor> CompiledFunction::replay(Entry& entry, std::span<const Tensor> inputs) {
  const NoGradGuard no_grad;
  for (std::size_t i = 0; i < inputs.size(); ++i) entry.inputs[i].copy_(inputs[i]);
  entry.has_run = true;
  entry.tape->run();
  ++replays_;
  ++entry.calls;
  entry.last_call = runs_ + replays_;
  return copies(entry.outputs);
}

std::vector<Tensor> CompiledFunction::call_graph(Entry& entry, std::span<const Tensor> inputs,
                                                 const Function& function) {
  if (!entry.graph && entry.warmups < options_.warmup_steps) {
    const GraphWatch watch;  // so that compiled functions in this one only run
    const cuda::PeersWatch peers(peers_);
    std::vector<Tensor> results = run(inputs, function, {});
    ++entry.warmups;
    return results;
  }
  for (const auto& found : peers_) found.peers->check();
  const bool is_outdated =
      entry.graph && (entry.arrangement != tape::arrangement() || entry.graph->is_retired());
  if (!entry.graph || is_outdated) {
    if (std::string why = capture(entry, function); !why.empty()) {
      end(std::move(why));
      return run(inputs, function, {});
    }
  }
  const NoGradGuard no_grad;
  const GraphPool::Turn turn(entry.graph->pool(), cuda::current_stream(entry.setting.device.index));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    entry.inputs[i].copy_(inputs[i], {.non_blocking = true});
  }
  const std::vector<Tensor>& results = entry.graph->launch();
  ++replays_;
  entry.last_call = runs_ + replays_;
  return copies(results);
}

std::string CompiledFunction::capture(Entry& entry, const Function& function) {
  // One rank alone may have rearranged its model, to evaluate it for example.
  const bool is_again = entry.graph.has_value();
  entry.graph.reset();
  std::string why;
  try {
    const std::vector<std::uint32_t> versions = versions_of(entry.inputs);
    const int device = entry.setting.device.index;
    entry.graph.emplace(entry.setting.device, entry.inputs, function,
                        keeps_tensors_ ? make_ref<GraphPool>(device) : memory_.pools_->on(device));
    keeps_tensors_ |= entry.graph->keeps_tensors();
    why = change_of(entry.inputs, versions);
  } catch (const std::exception& error) {
    if (is_again && !peers_.empty()) throw;
    why = error.what();
    if (why.empty()) why = "an exception without a text";
  }
  if (!is_again) {
    for (const auto& found : peers_) why = found.peers->first_reason(why);
    if (!why.empty() && entry.graph) entry.graph->abandon();
  }
  entry.arrangement = tape::arrangement();
  return why;
}

CompileSummary CompiledFunction::summary() const {
  CompileSummary summary{
      .capture_ms = capture_ms_, .replays = replays_, .runs = runs_, .why_not = why_not_};
  for (const auto& entry : entries_) {
    summary.graphs += entry->graph ? 1 : 0;
    if (!entry->tape) continue;
    ++summary.tapes;
    summary.steps += entry->tape->recording().steps.size();
    summary.chains += entry->tape->chains();
    summary.arena_bytes += entry->tape->arena_bytes();
    summary.separate_bytes += entry->tape->separate_bytes();
  }
  return summary;
}

}  // namespace dl::detail

namespace dl {

std::string CompileSummary::str() const {
  const std::string calls =
      fmt::format("{}, {}{}", counted(static_cast<std::uint64_t>(replays), "replay"),
                  counted(static_cast<std::uint64_t>(runs), "run"),
                  why_not.empty() ? "" : ", because " + why_not);
  const std::string captured = graphs == 0 ? "" : counted(graphs, "CUDA graph") + "; ";
  if (graphs > 0 && tapes == 0) return captured + calls;
  return captured +
         fmt::format(
             "{} of {} ({}), {:.1f} MiB ({:.1f} MiB without sharing), captured in {:.1f} ms; {}",
             counted(tapes, "tape"), counted(steps, "step"), counted(chains, "chain"),
             detail::mib(arena_bytes), detail::mib(separate_bytes), capture_ms, calls);
}

std::vector<std::string> compiler::list_backends() {
  return {std::string(detail::kEager), std::string(detail::kTape), std::string(detail::kCudaGraph)};
}

}  // namespace dl
