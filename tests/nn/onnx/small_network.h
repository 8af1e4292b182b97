// The network of the committed file small.onnx, with weights that are the same everywhere.
#pragma once

#include <cstdint>
#include <string>

#include "core/ops/index/index.h"
#include "core/tensor/factories.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/onnx/export.h"

namespace dl::onnx {

// Input [N, 1, 6, 6] -> [N, 3].
class SmallNetwork final : public nn::Module {
 public:
  SmallNetwork() {
    std::int64_t seed = 0;
    for (const nn::NamedTensor& each : state_dict()) {
      if (!is_floating(each.tensor.dtype())) continue;
      auto* const values = each.tensor.data<float>();
      for (std::int64_t i = 0; i < each.tensor.numel(); ++i) {
        values[i] = static_cast<float>((i * 7 + ++seed) % 16) / 16 + 0.0625F;
      }
    }
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = bn(conv(x)).relu();
    return fc(cat({y, y.mean({1}, {.keepdim = true})}, 1).flatten(1));
  }

 private:
  nn::Conv2d& conv = register_module("conv", nn::Conv2d(1, 2, 3, {.stride = 2}));
  nn::BatchNorm2d& bn = register_module("bn", nn::BatchNorm2d(2));
  nn::Linear& fc = register_module("fc", nn::Linear(12, 3));
};

inline void export_small_network(const std::string& path) {
  SmallNetwork network;
  export_model(network, zeros({1, 1, 6, 6}), path,
               {.input_names = {"image"},
                .output_names = {"logits"},
                .dynamic_axes = {{"image", {{0, "batch"}}}},
                .metadata = {{"made_by", "tests/nn/onnx"}}});
}

}  // namespace dl::onnx
