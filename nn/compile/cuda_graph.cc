#include "nn/compile/cuda_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/module/module.h"
#include "core/memory/cuda/cuda_memory.h"
#include "core/tape/step.h"
#include "core/tensor/tensor_impl.h"

namespace dl::detail {
namespace {

// While it lives, allocations on a stream come from a pool.
class PoolGuard {
 public:
  PoolGuard(const GraphPool& pool, cuda::PoolId outliving)
      : memory_(cuda::allocator(pool.device())), stream_(pool.stream().handle) {
    memory_.begin_pool(stream_, pool.id(), outliving);
  }
  PoolGuard(const PoolGuard&) = delete;
  PoolGuard& operator=(const PoolGuard&) = delete;
  ~PoolGuard() { memory_.end_pool(stream_); }

 private:
  cuda::CachingAllocator& memory_;
  void* stream_;
};

}  // namespace

void GraphWatch::unrepeatable(std::string_view what, RepeatedBy by) {
  if (!cuda::capturing() || by == RepeatedBy::kGraph || !refused.empty()) return;
  refused = what;
}

void GraphWatch::changed(std::string_view what, std::function<void()> again) {
  if (!cuda::capturing()) return;
  has_backward |= what == tape::kGradientStep;
  host_steps.push_back(std::move(again));
}

void GraphWatch::needs(const void* object, std::function<bool()> condition,
                       std::function<void()> restore) {
  if (!cuda::capturing() || !settled_.insert(object).second) return;
  conditions.push_back(std::move(condition));
  if (restore) restores.push_back(std::move(restore));
}

void GraphWatch::settled(const void* object) {
  if (cuda::capturing()) settled_.insert(object);
}

std::string obstacle_in_result(std::size_t i, const Tensor& result, bool has_backward) {
  if (!result.defined()) return fmt::format("result {} is undefined", i + 1);
  if (!result.requires_grad() || has_backward) return "";
  return fmt::format(
      "result {} has a history: call backward() in the function, or the function under a "
      "NoGradGuard",
      i + 1);
}

cuda::PoolId CudaGraph::OwnMemory::make() {
  return id_ = cuda::allocator(device_).make_pool();
}

CudaGraph::OwnMemory::~OwnMemory() {
  if (id_ != 0) cuda::allocator(device_).release_pool(id_);
}

CudaGraph::CudaGraph(Device device, std::span<const Tensor> inputs, const Function& function,
                     Ref<GraphPool> pool)
    : device_(device), pool_(std::move(pool)), own_(device.index), graph_(cuda::runtime()) {
  const cuda::DeviceGuard on_device(device.index);
  const bool shares = pool_->has_graphs();
  // Capture on a stream of its own. Other threads may use the current stream, and their work would
  // be captured instead of run. Nothing runs during a capture, so no stream has to wait for
  // another.
  const PoolGuard in_pool(*pool_, shares ? own_.make() : 0);
  const cuda::StreamGuard on_own(pool_->stream());
  GraphWatch watch;
  try {
    graph_.begin(pool_->stream());
    std::vector<Tensor> results = function(inputs);
    graph_.end();
    DL_CHECK(watch.refused.empty(), kInvalidArgument, "{}", watch.refused);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string why = obstacle_in_result(i, results[i], watch.has_backward);
      DL_CHECK(why.empty(), kInvalidArgument, "{}", why);
      DL_CHECK(results[i].device() == device, kInvalidArgument,
               "result {} is on {}, and launches compute on {} only", i + 1,
               results[i].device().str(), device.str());
      results_.push_back(results[i].detach());
    }
  } catch (...) {
    for (const auto& restore : watch.restores) restore();
    throw;
  }
  host_steps_ = std::move(watch.host_steps);
  conditions_ = std::move(watch.conditions);
  restores_ = std::move(watch.restores);
  pool_->add(*this);
  keeps_tensors_ = shares && has_left_tensors();
  if (keeps_tensors_) pool_->leave_to(*this);
}

CudaGraph::~CudaGraph() {
  pool_->remove(*this);
}

// True if something other than results_ holds memory that the capture took from the shared pool.
bool CudaGraph::has_left_tensors() const {
  const std::vector<void*> blocks =
      cuda::allocator(device_.index).blocks_left(pool_->stream().handle);
  std::set<void*> left(blocks.begin(), blocks.end());
  std::map<const Storage*, std::size_t> handles;
  for (const Tensor& result : results_) ++handles[result.impl()->storage.get()];
  for (const auto& [storage, count] : handles) {
    if (storage->use_count() == count) left.erase(storage->data());
  }
  return !left.empty();
}

bool CudaGraph::can_run() const {
  return std::ranges::all_of(conditions_, [](const auto& condition) { return condition(); });
}

void CudaGraph::abandon() {
  for (const auto& restore : restores_) restore();
}

const std::vector<Tensor>& CudaGraph::launch() {
  restores_.clear();
  graph_.launch(cuda::current_stream(device_.index));
  for (const auto& step : host_steps_) step();
  return results_;
}

}  // namespace dl::detail
