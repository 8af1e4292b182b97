// Says what made a loss NaN or infinite.
#pragma once

#include <string>

#include "core/tensor/tensor.h"
#include "nn/module/module.h"

namespace dl::examples {

// The answer of blame_for() if it finds nothing.
inline constexpr const char* kAllFinite = "the outputs of all modules are finite";

// Runs `model` on the batch that had the loss, in its current mode and with the caller's autocast,
// and names what is not finite: "the output of layer1.0.conv2 (Conv2d) is not finite". Looks at
// parameters and the batch first; of modules it names the first one in order of execution.
std::string blame_for(nn::Module& model, const Tensor& input);

}  // namespace dl::examples
