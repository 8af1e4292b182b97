// DistributedDataParallel: replicates a model on all ranks and averages its gradients.
//
//     nn::Sequential model = nn::models::mlp();
//     nn::parallel::DistributedDataParallel ddp(model, group);
//     optim::SGD opt(model.parameters(), {.lr = 0.01, .momentum = 0.9});
//     for (const data::Batch& batch : loader) {
//       opt.zero_grad();
//       nn::functional::cross_entropy(ddp(batch[0]), batch[1]).backward();  // averages gradients
//       opt.step();
//     }
//
// Every rank builds the same model. The constructor checks this (names, shapes, dtypes, order,
// options) and copies rank 0's parameters and buffers to all ranks. After backward() every gradient
// is the mean over the ranks, with the same bits on all of them. So equal optimizers keep the
// parameters equal. Communication overlaps with backward; see reducer.h.
//
// Differences from PyTorch. It refers to the model instead of being a module. So names in
// state_dict() have no "module." prefix, and a checkpoint can be loaded with and without DDP.
// Gradients are always views into the buckets (gradient_as_bucket_view). Their addresses do not
// change after the second step, and detach_() or replacing them has no effect. A parameter without
// a gradient is an error of that backward pass on every rank. So is an exception that leaves
// backward(), even if the program catches it. Buffers are copied from rank 0 in training only, so a
// single rank may evaluate.
//
// Ownership: the model must outlive this object, which holds the group, hooks in the model's
// parameters and the gradients' memory. Wrap the model after to(), load_state_dict() and
// requires_grad_(). Destroying the wrapper leaves a plain model.
//
// Thread-safety: none; one thread trains.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "collectives/api/process_group.h"
#include "nn/module/module.h"
#include "nn/parallel/reducer/bucket_plan.h"
#include "nn/parallel/reducer/overlap.h"

namespace dl::nn::parallel {

class Reducer;

struct DistributedDataParallelOptions {
  double first_bucket_mb = 1;  // MiB of gradients in the first bucket of a dtype
  double bucket_cap_mb = 25;   // and in the others
  // True: a pass may leave parameters out, and different ones on each rank. If another rank used
  // such a parameter, this rank's gradient counts as 0; if no rank did, the gradient stays
  // unchanged. Costs one small all-reduce for each step.
  bool find_unused_parameters = false;
  // True: copies rank 0's buffers before each forward in training mode, if gradients are on. Not
  // within no_sync().
  bool broadcast_buffers = true;
};

// While it lives, backward passes only accumulate gradients, without communication; it must live
// during backward(). The first pass after it averages the sum. It can be moved, for example into a
// std::optional; a moved-from guard has no effect.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(Reducer& reducer) noexcept;
  NoSync(NoSync&& other) noexcept : reducer_(std::exchange(other.reducer_, nullptr)) {}
  NoSync& operator=(NoSync&& other) noexcept {
    std::swap(reducer_, other.reducer_);
    return *this;
  }
  ~NoSync();

 private:
  Reducer* reducer_;
};

class DistributedDataParallel {
 public:
  // Collective: every rank calls it. Throws kMismatch on every rank, with the first parameter that
  // differs. Throws kInvalidArgument for a null group, a model without parameters that require
  // gradients, a bad option, or parameters on several devices. Throws the group's error.
  DistributedDataParallel(Module& model, Ref<collectives::ProcessGroup> group,
                          DistributedDataParallelOptions options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  Tensor forward(const Tensor& input);
  Tensor operator()(const Tensor& input) { return forward(input); }
  // For a model whose forward() takes other arguments: in every pass, call this and then the model.
  void begin_forward();

  NoSync no_sync() noexcept { return NoSync(*reducer_); }

  // The wrapped model, with its own names.
  Module& module() const noexcept { return model_; }
  StateDict state_dict() const { return model_.state_dict(); }
  StateDict named_parameters() const { return model_.named_parameters(); }
  std::vector<Tensor> parameters() const { return model_.parameters(); }

  // How much communication overlapped with backward: in the last pass that averaged gradients, and
  // in all such passes since construction or reset_overlap(). On CUDA, they wait for the device.
  const OverlapStats& last_overlap();
  const OverlapStats& overlap();
  void reset_overlap();

  // The current buckets. Places are indices into the list of parameters that require gradients.
  std::vector<BucketPlan> bucket_plan() const;

 private:
  Module& model_;
  Ref<collectives::ProcessGroup> group_;
  DistributedDataParallelOptions options_;
  std::vector<Tensor> buffers_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace dl::nn::parallel
