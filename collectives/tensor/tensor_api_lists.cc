// The functions of tensor_api.h that take lists of tensors.
#include <vector>

#include "collectives/compose/coalesced.h"
#include "collectives/tensor/tensor_api.h"
#include "collectives/tensor/tensor_checks.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

void check_device(std::string_view operation, const Tensor& tensor, const Tensor& first) {
  DL_CHECK(tensor.device() == first.device(), kInvalidArgument,
           "{}: a tensor is on {}, another on {}; coalesce tensors of one device", operation,
           first.device().str(), tensor.device().str());
}

void check_lists(std::string_view operation, std::span<const Tensor> outputs,
                 std::span<const Tensor> inputs) {
  DL_CHECK(outputs.size() == inputs.size(), kInvalidArgument, "{}: {} outputs for {} inputs",
           operation, outputs.size(), inputs.size());
}

CallOptions holding_all(const CallOptions& call, std::span<const Tensor> outputs,
                        std::span<const Tensor> inputs) {
  if (inputs.empty()) return call;
  std::vector<Tensor> all(outputs.begin(), outputs.end());
  all.insert(all.end(), inputs.begin(), inputs.end());
  return holding(call, inputs.front(), hold(all));
}

}  // namespace

Ref<Work> all_reduce_coalesced(ProcessGroup& group, std::span<const Tensor> tensors,
                               const TensorReduceOptions& o) {
  std::vector<AllReduceOptions> parts;
  for (const Tensor& tensor : tensors) {
    check_one("all_reduce_coalesced", "a tensor", tensor);
    check_device("all_reduce_coalesced", tensor, tensors.front());
    parts.push_back({.input = tensor.data_ptr(),
                     .output = tensor.data_ptr(),
                     .count = count_of(tensor),
                     .dtype = tensor.dtype(),
                     .op = o.op});
  }
  for (const Tensor& tensor : tensors) tensor.bump_version();
  return all_reduce_coalesced(group, parts, holding_all(o.call, {}, tensors));
}

Ref<Work> all_gather_coalesced(ProcessGroup& group, std::span<const Tensor> outputs,
                               std::span<const Tensor> inputs, const CallOptions& call) {
  constexpr std::string_view kName = "all_gather_coalesced";
  check_lists(kName, outputs, inputs);
  std::vector<AllGatherOptions> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_pair(kName, "an output", outputs[i], "its input", inputs[i], group.size());
    check_device(kName, inputs[i], inputs.front());
    parts.push_back({.input = inputs[i].data_ptr(),
                     .output = outputs[i].data_ptr(),
                     .count = count_of(inputs[i]),
                     .dtype = inputs[i].dtype()});
  }
  for (const Tensor& output : outputs) output.bump_version();
  return all_gather_coalesced(group, parts, holding_all(call, outputs, inputs));
}

Ref<Work> reduce_scatter_coalesced(ProcessGroup& group, std::span<const Tensor> outputs,
                                   std::span<const Tensor> inputs, const TensorReduceOptions& o) {
  constexpr std::string_view kName = "reduce_scatter_coalesced";
  check_lists(kName, outputs, inputs);
  std::vector<ReduceScatterOptions> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_pair(kName, "an input", inputs[i], "its output", outputs[i], group.size());
    check_device(kName, inputs[i], inputs.front());
    parts.push_back({.input = inputs[i].data_ptr(),
                     .output = outputs[i].data_ptr(),
                     .count = count_of(outputs[i]),
                     .dtype = inputs[i].dtype(),
                     .op = o.op});
  }
  for (const Tensor& output : outputs) output.bump_version();
  return reduce_scatter_coalesced(group, parts, holding_all(o.call, outputs, inputs));
}

}  // namespace dl::collectives
