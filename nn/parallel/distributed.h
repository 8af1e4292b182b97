// DistributedDataParallel: one model on every rank, one gradient for all.
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
// Every rank builds the same model; construction checks that (names, shapes, dtypes, order,
// options) and copies rank 0's parameters and buffers to all. After backward() every gradient is
// the mean over the ranks, bitwise the same on all of them, so that equal optimizers keep the
// parameters equal. Communication runs while backward goes on; see reducer.h.
//
// Differences from PyTorch: it refers to the model instead of being one, so that names in
// state_dict() have no "module." in front and a checkpoint fits with and without DDP. Gradients
// always are views into the buckets (gradient_as_bucket_view): their addresses stay from the second
// step on, and detach_() or replacing them is pointless. A parameter without gradient is an error
// of the backward pass in which it happened, on every rank, and so is an exception that leaves
// backward(), though the program catches it. Buffers are copied from rank 0 in
// training only, so that one rank may evaluate alone.
//
// Ownership: the model must outlive this object, which holds the group, hooks in the model's
// parameters and the gradients' memory. Wrap the model after to(), load_state_dict() and
// requires_grad_(). Destroying the wrapper leaves a plain model.
// Thread-safety: none; one thread trains.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "collectives/process_group.h"
#include "nn/module/module.h"
#include "nn/parallel/reducer/bucket_plan.h"
#include "nn/parallel/reducer/overlap.h"

namespace dl::nn::parallel {

class Reducer;

struct DistributedDataParallelOptions {
  double first_bucket_mb = 1;  // MiB of gradients in the first bucket of a dtype
  double bucket_cap_mb = 25;   // and in the others
  // Passes may leave parameters out, on each rank others: those count as zeros where any rank used
  // them, and keep their gradient where none did. Costs one small all-reduce a step.
  bool find_unused_parameters = false;
  bool broadcast_buffers = true;  // rank 0's buffers, before each forward in training
};

// While it lives, backward passes only accumulate. What counts is where backward() runs; the next
// pass outside sends the sum. It can be moved, as into a std::optional: a guard that was moved from
// holds nothing.
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
  // Collective: every rank calls it. Throws kMismatch on every rank, naming the first parameter
  // that differs; kInvalidArgument for a model without parameters that require gradients, or a bad
  // option or parameters on several devices; the group's error.
  DistributedDataParallel(Module& model, Ref<collectives::ProcessGroup> group,
                          DistributedDataParallelOptions options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  Tensor forward(const Tensor& input);
  Tensor operator()(const Tensor& input) { return forward(input); }
  // For a model whose forward() takes other arguments: call this, then the model, in every pass.
  void begin_forward();

  NoSync no_sync() noexcept { return NoSync(*reducer_); }

  // The model's own, under its own names.
  Module& module() const noexcept { return model_; }
  StateDict state_dict() const { return model_.state_dict(); }
  StateDict named_parameters() const { return model_.named_parameters(); }
  std::vector<Tensor> parameters() const { return model_.parameters(); }

  // How much communication was hidden: of the last pass that synchronised, and of all since
  // construction or reset_overlap().
  const OverlapStats& last_overlap();
  const OverlapStats& overlap();
  void reset_overlap();

  // The buckets in use; places refer to the parameters that require gradients, in order.
  std::vector<BucketPlan> bucket_plan() const;

 private:
  Module& model_;
  Ref<collectives::ProcessGroup> group_;
  DistributedDataParallelOptions options_;
  std::vector<Tensor> buffers_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace dl::nn::parallel
