#include "nn/parallel/sync_batch_norm.h"

#include "core/ops/norm/sync_batch_norm.h"
#include "core/tensor/factories.h"
#include "nn/parallel/reducer/broadcast.h"

namespace dl::nn::parallel {
namespace {

class GroupRanks final : public BatchRanks {
 public:
  explicit GroupRanks(const Ref<collectives::ProcessGroup>& group) : group_(group) {}

  Tensor gather(const Tensor& mine) override {
    const Tensor all =
        empty({group_->size(), mine.numel()}, {.dtype = DType::kF64, .device = mine.device()});
    group_
        ->all_gather({.input = mine.data_ptr(),
                      .output = all.data_ptr(),
                      .count = static_cast<std::size_t>(mine.numel()),
                      .dtype = DType::kF64,
                      .call = {.stream = stream_of(mine)}})
        ->wait(stream_of(mine));
    return all;
  }
  void add_up(const Tensor& tensor) override {
    group_
        ->all_reduce({.input = tensor.data_ptr(),
                      .output = tensor.data_ptr(),
                      .count = static_cast<std::size_t>(tensor.numel()),
                      .dtype = DType::kF64,
                      .call = {.stream = stream_of(tensor)}})
        ->wait(stream_of(tensor));
  }

 private:
  Ref<collectives::ProcessGroup> group_;
};

Ref<BatchRanks> ranks_of(const Ref<collectives::ProcessGroup>& group) {
  DL_CHECK(group, kInvalidArgument, "SyncBatchNorm: the group is null");
  return make_ref<GroupRanks>(group);
}

}  // namespace

SyncBatchNorm::SyncBatchNorm(std::int64_t features, const Ref<collectives::ProcessGroup>& group,
                             BatchNormOptions given)
    : BatchNorm(features, given) {
  share_batch(ranks_of(group));
}

void SyncBatchNorm::check_input(const Tensor& input) const {
  DL_CHECK(input.dim() >= 2, kShape,
           "SyncBatchNorm: the input has shape {}, wanted [N, C] or [N, C, d...]",
           input.sizes().str());
}

void convert_sync_batchnorm(Module& module, const Ref<collectives::ProcessGroup>& group) {
  const Ref<BatchRanks> ranks = ranks_of(group);
  for (BatchNorm* const norm : batch_norms(module)) norm->share_batch(ranks);
}

}  // namespace dl::nn::parallel
