#include "nn/utils/prune/trace.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/tensor/tensor_impl.h"
#include "nn/module/computed.h"
#include "nn/module/modes.h"

namespace dl::nn::utils::prune::detail {

using nn::detail::Computed;

std::vector<OfModule> tensors_of(Module& network) {
  std::vector<OfModule> all;
  for (const NamedModule& each : network.named_modules()) {
    const std::vector<std::string> computed = Computed::names(*each.module);
    const auto is_part = [&](const std::string& name) {
      return std::ranges::any_of(computed, [&](const std::string& pruned) {
        return name == pruned + "_orig" || name == pruned + "_mask";
      });
    };
    const auto add = [&](const StateDict& named, bool is_parameter) {
      for (const NamedTensor& entry : named) {
        if (is_part(entry.name)) continue;
        all.push_back({each.module, each.name, entry.name, is_parameter, entry.tensor.detach()});
      }
    };
    add(each.module->named_parameters(false), true);
    for (const std::string& name : computed) {
      all.push_back(
          {each.module, each.name, name, true, Computed::find(*each.module, name)->detach()});
    }
    add(each.module->named_buffers(false), false);
  }
  return all;
}

Trace::Trace(Module& network, const Tensor& sample) : sample_(sample.detach()) {
  const NoGradGuard no_grad;
  const nn::detail::EvalMode evaluating(network);
  for (const NamedModule& each : network.named_modules()) each.module->compute_parameters();
  tensors_ = tensors_of(network);
  record(network);
  bind();
}

void Trace::record(Module& network) {
  const Computed::Pause pause;
  const AutocastOff no_casts;
  {
    tape::Recorder recorder;
    const Tensor seen = network(sample_).clone();
    recording_ = recorder.finish();
  }
  DL_CHECK(recording_.refused.empty(), kNotImplemented,
           "prune: the forward pass cannot be followed: {}", recording_.refused);
  for (const auto& step : recording_.steps) {
    DL_CHECK(!step->is_opaque(), kNotImplemented,
             "prune: the forward pass cannot be followed through {}", step->name());
  }
}

bool Trace::is_sample(std::int64_t number) const {
  return block(number).storage.get() == sample_.storage().get();
}

Tensor Trace::memory(std::int64_t number, DType dtype) const {
  const auto count = static_cast<std::int64_t>(block(number).bytes / size_of(dtype));
  return Tensor(make_ref<TensorImpl>(memory_[static_cast<std::size_t>(number)], Shape{count},
                                     Strides{1}, 0, dtype));
}

// The network's own tensors stay as they are.
void Trace::bind() {
  tensor_in_.assign(block_count(), -1);
  memory_.resize(block_count());
  for (std::size_t b = 0; b < memory_.size(); ++b) {
    const tape::Block& block = recording_.blocks[b];
    memory_[b] = Storage::make(block.bytes, Device{});
    if (!block.storage || block.bytes == 0) continue;
    std::memcpy(memory_[b]->data(), block.storage->data(), block.bytes);
    for (std::size_t t = 0; t < tensors_.size() && tensor_in_[b] < 0; ++t) {
      if (tensors_[t].value.storage().get() == block.storage.get()) {
        tensor_in_[b] = static_cast<std::int64_t>(t);
      }
    }
  }
  for (const auto& step : recording_.steps) {
    for (tape::Operand& operand : step->operands()) {
      if (operand.block == tape::Operand::kUndefined) continue;
      operand.bound = Tensor(make_ref<TensorImpl>(
          memory_[static_cast<std::size_t>(operand.block)], operand.sizes, operand.strides,
          operand.first / static_cast<std::int64_t>(size_of(operand.dtype)), operand.dtype));
    }
  }
}

}  // namespace dl::nn::utils::prune::detail
