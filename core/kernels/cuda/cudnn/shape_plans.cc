#include "core/kernels/cuda/cudnn/shape_plans.h"

#include <array>
#include <atomic>
#include <span>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/device/math_flags.h"
#include "core/kernels/cuda/cudnn/plan_store.h"
#include "core/kernels/cuda/runtime/handles.h"
#include "core/kernels/cuda/runtime/real_runtime.h"

namespace dl::kernels::cuda::dnn {
namespace {

constexpr std::size_t kMostPlans = 128;  // of one operation and thread
constexpr int kFirstCapability = 80;
// Earlier ones need masks in attention in the place of lengths that are no multiples of 128.
constexpr std::size_t kFirstVersion = 91600;

// What the thread's last failed call of cuDNN says of itself.
std::string cudnn_reason() {
  std::array<char, 256> text{};
  cudnnGetLastErrorString(text.data(), text.size());
  return text.data();
}

}  // namespace

bool plans_are_made(const Launch& launch) {
  const dl::detail::MathFlags& flags = *dl::cuda::opener().math;
  static const std::size_t version = cudnnGetVersion();
  return flags.cudnn_benchmark.load(std::memory_order_relaxed) &&
         flags.cudnn_enabled.load(std::memory_order_relaxed) &&
         launch.compute_capability() >= kFirstCapability && version >= kFirstVersion;
}

Plan plan_for(const std::function<Graph()>& make_graph, const Purpose& purpose, bool deterministic,
              std::size_t& made) {
  Plan plan;
  const dl::cuda::RelaxedCapture relaxed;  // planning loads code and allocates
  try {
    const Graph graph = make_graph();
    const Target target{.handle = of_this_thread<DnnHandle>().get(),
                        .deterministic = deterministic};
    const std::string shape = (deterministic ? "deterministic" : "any order") + text_of(graph);
    if (const auto stored = stored_plan(shape)) {
      plan = loaded_plan(graph, *stored, target);
      if (plan) return plan;
      warn_of_unusable(shape);
    }
    if (made == kMostPlans) return plan;
    plan = plan_of(graph, target);
    if (!plan) log::info("{}: cuDNN has no kernel for {}", purpose.operation, purpose.describe());
    const std::string text = plan ? plan.text() : std::string();
    if (!text.empty()) store_plan(shape, text);
  } catch (const Error& error) {
    log::warning("{}: dlrun's own kernel takes the place of cuDNN's for {}: {}", purpose.operation,
                 purpose.describe(), error.what());
  }
  if (plan && ++made == kMostPlans) {
    log::warning(
        "{}: cuDNN has planned {} shapes, of which each took about a second; dlrun's own kernel "
        "computes others",
        purpose.operation, kMostPlans);
  }
  return plan;
}

bool run(Plan& plan, const std::vector<void*>& memory, const Launch& launch,
         std::initializer_list<float> constants) {
  cudnnHandle_t handle = of_this_thread<DnnHandle>().get();
  DL_CUDNN_CHECK(cudnnSetStream(handle, launch.stream()));
  const Workspace workspace(plan.workspace(), launch.stream());
  if (plan.run(handle, memory, workspace.data(),
               std::span<const float>(constants.begin(), constants.size()))) {
    return true;
  }
  log::warning(
      "cuDNN refuses to run a plan that it has made or loaded ({}); dlrun's own kernel takes its "
      "place",
      cudnn_reason());
  return false;
}

}  // namespace dl::kernels::cuda::dnn
