#include "nn/compile/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/base/log/warn_once.h"
#include "core/device/parallel.h"
#include "core/tape/arrangement.h"
#include "core/tape/tape.h"

namespace dl::detail {
namespace {

using Clock = std::chrono::steady_clock;

// A function may make things in its first call (an optimizer's state, a cache), so a recording may
// differ from the one before so often.
constexpr int kMostReplacements = 3;

struct Form {
  Shape sizes;
  Strides strides;
  DType dtype;
  bool operator==(const Form&) const = default;
};

// What a tape was recorded for.
struct Setting {
  std::vector<Form> inputs;
  int threads = 0;
  bool records_gradients = false;
  AutocastState autocast;
  bool operator==(const Setting&) const = default;
};

Setting setting_of(std::span<const Tensor> inputs) {
  Setting setting{.inputs = {},
                  .threads = num_threads(),
                  .records_gradients = is_grad_enabled(),
                  .autocast = autocast_state};
  for (const Tensor& input : inputs) {
    setting.inputs.push_back({input.sizes(), input.strides(), input.dtype()});
  }
  return setting;
}

// Why these inputs cannot have a tape; empty: they can.
std::string obstacle_in(std::span<const Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) return fmt::format("input {} is undefined", i + 1);
    if (inputs[i].is_cuda()) return fmt::format("input {} is on a GPU", i + 1);
    if (inputs[i].requires_grad()) return fmt::format("input {} requires gradients", i + 1);
  }
  return "";
}

bool has_backward(const tape::Recording& recording) {
  return std::ranges::any_of(recording.steps,
                             [](const auto& step) { return step->name() == tape::kGradientStep; });
}

// The tape writes its outputs again in its next run.
std::vector<Tensor> copies(const std::vector<Tensor>& outputs) {
  const NoGradGuard no_grad;
  std::vector<Tensor> result;
  for (const Tensor& output : outputs) result.push_back(output.clone());
  return result;
}

// A tape casts weights itself, and the program must not see its casts, which its runs write again:
// none goes into a call or out of it.
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

struct CompiledFunction::Entry {
  Setting setting;
  std::vector<Tensor> inputs;   // the tape reads them
  std::vector<Tensor> outputs;  // and writes these
  std::optional<tape::Tape> tape;
  std::uint64_t arrangement = 0;
  int checks_left = 0;
  int replacements = 0;
  std::int64_t calls = 0;
  std::int64_t last_call = 0;  // of the function
};

CompiledFunction::CompiledFunction(CompileOptions options) : options_(options) {
  DL_CHECK(options.checks >= 0, kInvalidArgument, "compile: checks is {}, wanted 0 or more",
           options.checks);
  DL_CHECK(options.check >= 0, kInvalidArgument, "compile: check is {}, wanted 0 or more",
           options.check);
}
CompiledFunction::~CompiledFunction() = default;
CompiledFunction::CompiledFunction(CompiledFunction&&) noexcept = default;

std::vector<Tensor> CompiledFunction::call(std::span<const Tensor> inputs,
                                           const Function& function) {
  // The recording of an outer compiled function sees what this one does.
  const bool is_inner = thread_watch != nullptr;
  if (!options_.enabled || has_ended_ || is_inner) return run(inputs, function, {});
  if (std::string why = obstacle_in(inputs); !why.empty()) {
    return run(inputs, function, std::move(why));
  }
  Entry* const entry = entry_for(inputs);
  if (entry == nullptr) {
    return run(inputs, function,
               fmt::format("there are {} tapes for inputs of other forms", entries_.size()));
  }
  const OwnCasts casts;
  const bool is_due = options_.check > 0 && (entry->calls + 1) % options_.check == 0;
  const bool records =
      !entry->tape || entry->arrangement != tape::arrangement() || entry->checks_left > 0 || is_due;
  return records ? record(*entry, inputs, function) : replay(*entry, inputs);
}

// Gradients may be elsewhere in each call, or there are none: such calls have a tape each. One that
// cannot run now makes room for another.
CompiledFunction::Entry* CompiledFunction::entry_for(std::span<const Tensor> inputs) {
  Setting setting = setting_of(inputs);
  Entry* unfit = nullptr;
  for (const auto& entry : entries_) {
    if (entry->setting != setting) continue;
    if (!entry->tape || entry->tape->can_run()) return entry.get();
    if (unfit == nullptr || entry->last_call < unfit->last_call) unfit = entry.get();
  }
  if (entries_.size() >= options_.most_tapes) {
    if (unfit != nullptr) unfit->tape.reset();
    return unfit;
  }
  auto entry = std::make_unique<Entry>();
  entry->setting = std::move(setting);
  const NoGradGuard no_grad;
  for (const Tensor& input : inputs) entry->inputs.push_back(input.clone());
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
  return function(inputs);
}

void CompiledFunction::end(std::string why) {
  has_ended_ = true;
  entries_.clear();
  why_not_ = std::move(why);
  DL_CHECK(!options_.whole, kNotImplemented, "compile: {}", why_not_);
  warn_once("compile: all calls run the function: {}", why_not_);
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
    tape::Recorder recorder;
    results = function(entry.inputs);
    recording = recorder.finish();
  }
  const auto start = Clock::now();
  for (std::size_t i = 0; i < results.size() && recording.refused.empty(); ++i) {
    if (!results[i].defined()) recording.refused = fmt::format("result {} is undefined", i + 1);
    if (results[i].requires_grad() && !has_backward(recording)) {
      recording.refused = fmt::format(
          "result {} has a history: call backward() in the function, or the function under a "
          "NoGradGuard",
          i + 1);
    }
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
    return results;
  }
  const bool is_rearranged = entry.tape && entry.arrangement != tape::arrangement();
  if (entry.tape && !is_rearranged && ++entry.replacements > kMostReplacements) {
    end(fmt::format("the function does not do the same in each call: {}", differs));
    return results;
  }
  entry.tape.emplace(std::move(recording));
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
  entry.tape->run();
  ++replays_;
  ++entry.calls;
  entry.last_call = runs_ + replays_;
  return copies(entry.outputs);
}

CompileSummary CompiledFunction::summary() const {
  CompileSummary summary{
      .capture_ms = capture_ms_, .replays = replays_, .runs = runs_, .why_not = why_not_};
  for (const auto& entry : entries_) {
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
  return fmt::format(
      "{} tape{} of {} steps ({} chains), {:.1f} MiB ({:.1f} MiB without sharing), captured in "
      "{:.1f} ms; {} "
      "replays, {} runs{}",
      tapes, tapes == 1 ? "" : "s", steps, chains, detail::mib(arena_bytes),
      detail::mib(separate_bytes), capture_ms, replays, runs,
      why_not.empty() ? "" : ", because " + why_not);
}

}  // namespace dl
