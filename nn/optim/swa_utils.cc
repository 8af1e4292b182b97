#include "nn/optim/swa_utils.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/text/printable.h"
#include "core/device/cuda/graph.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/logic/logic.h"
#include "core/tape/recorder.h"
#include "core/tensor/factories.h"
#include "nn/layers/norm.h"
#include "nn/module/modes.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::optim::swa_utils {
namespace {

constexpr std::string_view kCount = "n_averaged";
constexpr std::string_view kPrefix = "module.";

void check_alike(const nn::StateDict& average, const nn::StateDict& model) {
  DL_CHECK(average.size() == model.size(), kMismatch,
           "AveragedModel: the average has {} parameters or buffers, the model {}", average.size(),
           model.size());
  for (std::size_t i = 0; i < model.size(); ++i) {
    const Tensor& a = average[i].tensor;
    const Tensor& b = model[i].tensor;
    DL_CHECK(average[i].name == model[i].name && a.sizes() == b.sizes() && a.dtype() == b.dtype(),
             kMismatch, "AveragedModel: the average has {} {} of {}, the model {} {} of {}",
             average[i].name, a.sizes().str(), name_of(a.dtype()), model[i].name, b.sizes().str(),
             name_of(b.dtype()));
  }
}

}  // namespace

// A launch of a graph counts the updates that are in it.
class AveragedModel::Captured final : public cuda::GraphPart {
 public:
  explicit Captured(AveragedModel& model) : model_(model) {}
  void add_update() noexcept { ++updates_; }
  void before_launch(const Stream&) override {}
  void after_launch(const Stream&, const std::exception_ptr& failed) noexcept override {
    if (!failed) model_.n_averaged_ += updates_;
  }

 private:
  AveragedModel& model_;
  std::int64_t updates_ = 0;
};

AveragedModel::AveragedModel(nn::Module& average, const nn::Module& model,
                             AveragedModelOptions options)
    : average_(average), model_(model), options_(options) {
  DL_CHECK(!options.ema_decay || (*options.ema_decay >= 0 && *options.ema_decay <= 1),
           kInvalidArgument, "AveragedModel: ema_decay is {}, wanted 0 to 1",
           options.ema_decay.value_or(0));
  const NoGradGuard no_grad;
  for (const bool buffers : {false, true}) {
    const nn::StateDict to = buffers ? average.named_buffers() : average.named_parameters();
    const nn::StateDict from = buffers ? model.named_buffers() : model.named_parameters();
    check_alike(to, from);
    for (std::size_t i = 0; i < to.size(); ++i) {
      Tensor(to[i].tensor).copy_(from[i].tensor);
      count_on(to[i].tensor.device());
    }
  }
}

AveragedModel::~AveragedModel() {
  if (is_captured_) cuda::destroy_graphs_of(this);
}

const Tensor& AveragedModel::count_on(Device device) {
  for (const Tensor& count : counts_) {
    if (count.device() == device) return count;
  }
  cuda::refuse_in_capture(
      "an average's first update on a device cannot be captured; make one before");
  return counts_.emplace_back(
      full({}, static_cast<double>(n_averaged_), {.dtype = DType::kI64, .device = device}));
}

// In float32, which a copy cuts off.
Tensor AveragedModel::average_of_integers(const Tensor& old, const Tensor& now) {
  const Tensor before = old.to(DType::kF32);
  const Tensor& count = count_on(old.device());
  const Tensor average =
      options_.ema_decay
          ? before * *options_.ema_decay + now.to(DType::kF32) * (1 - *options_.ema_decay)
          : before + sub(now, old).to(DType::kF32) / (count.to(DType::kF32) + 1.0);
  return where(eq(count, 0), now, average.to(old.dtype()));
}

void AveragedModel::take(const nn::StateDict& to, const nn::StateDict& from, bool averaged) {
  struct List {
    std::vector<Tensor> averages;
    std::vector<Tensor> values;
  };
  check_alike(to, from);
  std::vector<List> lists(counts_.size());  // one for each device
  std::vector<std::pair<Tensor, Tensor>> results;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const Tensor& average = to[i].tensor;
    if (averaged && !is_floating(average.dtype())) {
      Tensor(average).copy_(average_of_integers(average, from[i].tensor.to(average.device())));
      continue;
    }
    if (!average.is_cuda()) cuda::refuse_in_capture("an average on the CPU cannot be captured");
    const Tensor& count = count_on(average.device());
    lists.resize(counts_.size());
    List& list = lists[static_cast<std::size_t>(&count - counts_.data())];
    const Tensor value = from[i].tensor.detach().to(average.device());
    const bool is_dense = average.is_contiguous() || average.is_channels_last();
    if (is_dense && average.strides() == value.strides()) {
      list.averages.push_back(average);
      list.values.push_back(value);
    } else {
      list.averages.push_back(average.detach().clone(MemoryFormat::kContiguous));
      list.values.push_back(value.contiguous());
      results.emplace_back(average, list.averages.back());
    }
  }
  kernels::AverageStep step{.kind = options_.ema_decay ? kernels::AverageStep::Kind::kMoving
                                                       : kernels::AverageStep::Kind::kMean,
                            .decay = options_.ema_decay.value_or(0)};
  if (!averaged) step.kind = kernels::AverageStep::Kind::kCopy;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].averages.empty()) continue;
    call<Op::kAverageWeights>(counts_[i].device(), std::span<const Tensor>(lists[i].averages),
                              std::span<const Tensor>(lists[i].values), counts_[i], step);
    for (const Tensor& average : lists[i].averages) average.bump_version();
  }
  for (auto& [average, result] : results) average.copy_(result);
}

void AveragedModel::update_parameters() {
  // A tape calls this function again.
  if (tape::Recorder* const recorder = tape::Recorder::current()) [[unlikely]] {
    return recorder->run_host("average_weights", this, [this] { update_parameters(); });
  }
  const NoGradGuard no_grad;
  const bool captured = cuda::capturing();
  // Launches of graphs do not count on the CPU.
  for (Tensor& count : counts_) {
    if (!captured && !count.is_cuda()) count.fill_(static_cast<double>(n_averaged_));
  }
  take(average_.named_parameters(), model_.named_parameters(), true);
  take(average_.named_buffers(), model_.named_buffers(), options_.use_buffers);
  for (Tensor& count : counts_) {
    if (!captured || count.is_cuda()) count.add_(1);
  }
  if (captured) {
    is_captured_ = true;
    cuda::GraphPart* const part =
        cuda::note_captured(this, [this] { return make_ref<Captured>(*this); });
    if (part != nullptr) static_cast<Captured*>(part)->add_update();
  } else {
    ++n_averaged_;
  }
}

nn::StateDict AveragedModel::state_dict() const {
  nn::StateDict state{{std::string(kCount), tensor(n_averaged_)}};
  for (const nn::NamedTensor& entry : average_.state_dict()) {
    state.push_back({std::string(kPrefix) + entry.name, entry.tensor});
  }
  return state;
}

void AveragedModel::load_state_dict(const nn::StateDict& state) {
  nn::StateDict of_module;
  for (const nn::NamedTensor& entry : state) {
    if (entry.name == kCount) continue;
    DL_CHECK(entry.name.starts_with(kPrefix), kMismatch,
             "AveragedModel: load_state_dict: got {}, wanted \"n_averaged\" and names that begin "
             "with \"module.\"",
             quoted_name(entry.name));
    of_module.push_back({entry.name.substr(kPrefix.size()), entry.tensor});
  }
  const Tensor* const count = nn::find(state, kCount);
  DL_CHECK(count != nullptr && count->defined() && count->numel() == 1 &&
               !is_floating(count->dtype()) && count->item<std::int64_t>() >= 0,
           kMismatch,
           "AveragedModel: load_state_dict: \"n_averaged\" is {}, wanted an integer of at least 0",
           count == nullptr ? "missing" : count->str());
  average_.load_state_dict(of_module);
  n_averaged_ = count->item<std::int64_t>();
  const NoGradGuard no_grad;
  for (Tensor& on_device : counts_) on_device.fill_(static_cast<double>(n_averaged_));
}

void AveragedModel::load(const nn::StateDict& state, std::span<const nn::SkippedTensor> skipped,
                         std::string_view path) {
  try {
    // A skipped tensor is an error: the whole state is needed.
    DL_CHECK(skipped.empty(), kMismatch, "AveragedModel: load_state_dict: cannot load {}: {}",
             nn::shown_name(skipped.front().name), skipped.front().reason);
    load_state_dict(state);
  } catch (const Error& error) {
    throw_error(error.kind(), "{}: {}", path, error.what());
  }
}

void update_bn(std::span<const Tensor> inputs, nn::Module& module) {
  // Each module's mode and each BatchNorm's momentum come back, even if a forward pass throws.
  const nn::detail::SavedModes modes(module);
  struct Restore {
    ~Restore() {
      for (const auto& [norm, momentum] : momenta) norm->options.momentum = momentum;
    }
    std::vector<std::pair<nn::BatchNorm*, std::optional<double>>> momenta;
  } restore;
  for (nn::BatchNorm* const norm : nn::batch_norms(module)) {
    if (!norm->options.track_running_stats) continue;
    restore.momenta.emplace_back(norm, norm->options.momentum);
    norm->reset_running_stats();
    norm->options.momentum = std::nullopt;
  }
  if (restore.momenta.empty()) return;
  const NoGradGuard no_grad;
  module.train();
  for (const Tensor& input : inputs) module(input);
}

}  // namespace dl::optim::swa_utils
