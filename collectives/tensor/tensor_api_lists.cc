// The functions of tensor_api.h that take lists of tensors.
#include <type_traits>
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

// One operation for each output and its input, both checked. The larger of the two holds the parts
// of all ranks: the output of an all_gather, the input of a reduce_scatter.
template <typename Options>
std::vector<Options> checked_pairs(std::string_view operation, std::span<const Tensor> outputs,
                                   std::span<const Tensor> inputs, int size) {
  constexpr bool kGathers = std::is_same_v<Options, AllGatherOptions>;
  DL_CHECK(outputs.size() == inputs.size(), kInvalidArgument, "{}: {} outputs for {} inputs",
           operation, outputs.size(), inputs.size());
  std::vector<Options> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if constexpr (kGathers) {
      check_pair(operation, "an output", outputs[i], "its input", inputs[i], size);
    } else {
      check_pair(operation, "an input", inputs[i], "its output", outputs[i], size);
    }
    check_device(operation, inputs[i], inputs.front());
    parts.push_back({.input = inputs[i].data_ptr(),
                     .output = outputs[i].data_ptr(),
                     .count = count_of(kGathers ? inputs[i] : outputs[i]),
                     .dtype = inputs[i].dtype()});
  }
  return parts;
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
  const auto parts =
      checked_pairs<AllGatherOptions>("all_gather_coalesced", outputs, inputs, group.size());
  for (const Tensor& output : outputs) output.bump_version();
  return all_gather_coalesced(group, parts, holding_all(call, outputs, inputs));
}

Ref<Work> reduce_scatter_coalesced(ProcessGroup& group, std::span<const Tensor> outputs,
                                   std::span<const Tensor> inputs, const TensorReduceOptions& o) {
  auto parts = checked_pairs<ReduceScatterOptions>("reduce_scatter_coalesced", outputs, inputs,
                                                   group.size());
  for (ReduceScatterOptions& part : parts) part.op = o.op;
  for (const Tensor& output : outputs) output.bump_version();
  return reduce_scatter_coalesced(group, parts, holding_all(o.call, outputs, inputs));
}

}  // namespace dl::collectives
