// Two stages of a model on two devices, and batches that go through them in chunks.
//
// A chunk's second stage needs only its own first stage, so on two GPUs the first one can work on
// the next chunk meanwhile: the program launches kernels and does not wait for them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/tensor.h"
#include "nn/module/module.h"

namespace dl::examples::several_devices {

class TwoStages {
 public:
  // Moves the stages to their devices. They must outlive this object.
  TwoStages(nn::Module& first, Device first_device, nn::Module& second, Device second_device);

  // [N, ...] on any device -> the model's output on the second device.
  Tensor operator()(const Tensor& input);
  // Runs at most `chunks` parts of the batch one after another, and joins their outputs.
  Tensor in_chunks(const Tensor& input, std::int64_t chunks);
  std::vector<Tensor> parameters() const;
  Device output_device() const { return second_device_; }

 private:
  nn::Module& first_;
  nn::Module& second_;
  Device first_device_;
  Device second_device_;
};

}  // namespace dl::examples::several_devices
