// Section A.9.1 and listing A.11: tensors and training on a GPU, or on the CPU if there is none.
#include <dlrun.h>

#include <iostream>

#include "examples/appendix_a/a04.h"
#include "examples/appendix_a/a07.h"
#include "examples/appendix_a/a09.h"
#include "examples/appendix_a/listings.h"

namespace dl::examples::appendix_a {

void training_on_gpu() {
  Tensor tensor_1 = tensor({1., 2., 3.});
  Tensor tensor_2 = tensor({4., 5., 6.});
  std::cout << tensor_1 + tensor_2 << "\n";
  const Device device = cuda::is_available() ? Device{DeviceType::kCUDA} : Device{};
  if (device.type == DeviceType::kCUDA) {
    tensor_1 = tensor_1.to(device);
    tensor_2 = tensor_2.to(device);
    std::cout << tensor_1 + tensor_2 << "\n";
    tensor_1 = tensor_1.cpu();
    try {
      std::cout << tensor_1 + tensor_2 << "\n";
    } catch (const Error& error) {
      std::cout << error.what() << "\n";
    }
  }

  const ToyLoaders toy(/*drop_last=*/true);
  manual_seed(123);
  NeuralNetwork model(2, 2);
  model.to(device);
  train(model, toy.train_loader, {.label = "Train/Val Loss", .device = device});
}

}  // namespace dl::examples::appendix_a
