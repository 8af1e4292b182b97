// Recurrent layers of the host device's cuDNN: what is computed, and the computation.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dl::host_device {

struct Rnn {
  cudnnRNNMode_t cell = CUDNN_RNN_RELU;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool has_bias = false;
  bool has_projection = false;
  std::int64_t directions = 0;  // 0: not set
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  std::int64_t width = 0;  // of an output in one direction
  std::int64_t layers = 0;

  std::int64_t gates() const { return cell == CUDNN_LSTM ? 4 : cell == CUDNN_GRU ? 3 : 1; }
  std::int64_t inputs_of(std::int64_t pseudo_layer) const {
    return pseudo_layer < directions ? inputs : directions * width;
  }
};

// A matrix of the weights, and its bias.
struct WeightPart {
  std::size_t matrix, bias;  // their first bytes
  std::int64_t rows, columns;
};
// By cuDNN's number of the linear layer. They lie in an order of this device's own, with gaps.
WeightPart weight_part(const Rnn& rnn, std::int64_t pseudo_layer, std::int64_t number);
std::size_t weight_bytes(const Rnn& rnn);
std::size_t reserve_bytes(const Rnn& rnn, const std::vector<int>& lengths);

// Packed sequences, the longest first. Null: 0, or not wanted.
struct RnnMemory {
  const void* x = nullptr;
  const void* hx = nullptr;
  const void* cx = nullptr;
  const void* weights = nullptr;
  void* y = nullptr;
  void* hy = nullptr;
  void* cy = nullptr;
  const void* dy = nullptr;
  const void* dhy = nullptr;
  const void* dcy = nullptr;
  void* dx = nullptr;
  void* dhx = nullptr;
  void* dcx = nullptr;
  void* dweights = nullptr;
};
// Each computes in f32, and keeps in the reserve what the next one reads.
void rnn_forward(const Rnn& rnn, const std::vector<int>& lengths, const RnnMemory& memory,
                 std::vector<float>& reserve);
void rnn_backward_data(const Rnn& rnn, const std::vector<int>& lengths, const RnnMemory& memory,
                       std::vector<float>& reserve);
// Adds to dweights.
void rnn_backward_weights(const Rnn& rnn, const std::vector<int>& lengths, const RnnMemory& memory,
                          std::vector<float>& reserve);

}  // namespace dl::host_device
