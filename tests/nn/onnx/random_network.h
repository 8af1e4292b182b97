// A network of random layers and operations, by its seed: for exports of networks that no file
// defines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "nn/module/module.h"

namespace dl::onnx {

// Input [N, 3, 12, 10] -> [N, 7].
class RandomNetwork final : public nn::Module {
 public:
  explicit RandomNetwork(std::uint32_t seed);
  Tensor forward(const Tensor& input) override;

 private:
  // The next layer: it is made in the first pass, and the same one in every later pass.
  template <typename Make>
  nn::Module& layer(const Make& make);
  unsigned draw(unsigned count) { return static_cast<unsigned>(random_() % count); }

  Tensor block(const Tensor& x);
  Tensor layers(const Tensor& x);
  Tensor activated(const Tensor& x);
  Tensor arithmetic(const Tensor& x);
  Tensor arrangement(const Tensor& x);
  Tensor selection(const Tensor& x);
  Tensor attention(const Tensor& x);
  Tensor reduction(const Tensor& x);

  std::uint32_t seed_;
  std::mt19937 random_;
  std::vector<nn::Module*> layers_;
  std::size_t next_ = 0;
};

}  // namespace dl::onnx
