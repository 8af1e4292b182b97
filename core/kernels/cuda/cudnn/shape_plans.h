// The plans of an operation for the shapes that a thread meets. cuDNN takes about a second for each
// that is not stored (plan_store.h), so backends::cudnn::benchmark must be on.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "core/kernels/cuda/cudnn/graph.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/lru_cache.h"

namespace dl::kernels::cuda::dnn {

// Whether the settings, the version of cuDNN and the device allow plans.
bool plans_are_made(const Launch& launch);

// What one graph is for, in a log line.
struct Purpose {
  const char* operation;
  std::function<std::string()> describe;  // "2 x 4 heads in float16"
};
// From the store, or made and stored. An empty plan, and a log line, if cuDNN has none, or if this
// thread has made as many as it gets for the operation (`made`).
Plan plan_for(const std::function<Graph()>& make_graph, const Purpose& purpose, bool deterministic,
              std::size_t& made);

// By of_this_thread() (handles.h). Plans are kept: a captured graph may run them. Shapes without a
// plan are remembered, too.
template <typename Key>
class ShapePlans {
 public:
  // The plan of a key, or null if there is none.
  Plan* find(const Key& key, const std::function<Graph()>& make_graph, const Purpose& purpose,
             bool deterministic = true) {
    Plan& plan = shapes_.get(key, [&] {
      return std::make_unique<Plan>(plan_for(make_graph, purpose, deterministic, made_));
    });
    return plan ? &plan : nullptr;
  }

 private:
  LruCache<Key, Plan> shapes_{std::size_t{1} << 16};
  std::size_t made_ = 0;
};

// Plan::run() on the launch's stream, with scratch memory. If it is false, the log says so, and
// dlrun's own kernel computes this call and later ones.
bool run(Plan& plan, const std::vector<void*>& memory, const Launch& launch,
         std::initializer_list<float> constants = {});

}  // namespace dl::kernels::cuda::dnn
