#include "tests/host_device/cudnn/rnn.h"

#include <algorithm>
#include <cmath>

#include "tests/host_device/cudnn/values.h"

namespace dl::host_device {
namespace {

using dnn::load;
using dnn::store;

constexpr std::size_t kGap = 64;  // bytes behind each part of the weights

std::size_t element_bytes(const Rnn& rnn) {
  return rnn.type == CUDNN_DATA_FLOAT ? 4 : 2;
}

std::int64_t linear_layers(const Rnn& rnn) {
  return 2 * rnn.gates() + (rnn.has_projection ? 1 : 0);
}

std::size_t padded(std::int64_t elements, const Rnn& rnn) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * element_bytes(rnn);
  return (bytes + 15) / 16 * 16 + kGap;
}

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

// The rows of the steps of packed sequences.
class Steps {
 public:
  explicit Steps(const std::vector<int>& lengths) : lengths_(lengths) {
    std::int64_t begin = 0;
    for (int t = 0; t < lengths.front(); ++t) {
      begins_.push_back(begin);
      begin += std::ranges::count_if(lengths, [t](int length) { return length > t; });
    }
    rows_ = begin;
  }
  std::int64_t rows() const { return rows_; }
  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t length(std::int64_t n) const { return lengths_[static_cast<std::size_t>(n)]; }
  // The row of the i-th step of a direction; -1 before the first.
  std::int64_t row(std::int64_t n, std::int64_t i, std::int64_t direction) const {
    if (i < 0) return -1;
    const std::int64_t t = direction == 0 ? i : length(n) - 1 - i;
    return begins_[static_cast<std::size_t>(t)] + n;
  }

 private:
  const std::vector<int>& lengths_;
  std::vector<std::int64_t> begins_;
  std::int64_t rows_ = 0;
};

// What is kept of a row of a pseudo layer.
struct Row {
  float* gates;       // behind their functions
  float* cell;        // the cell state
  float* state;       // the hidden state before the projection
  float* from_state;  // of a GRU, what its third gate gets from the hidden state
  float* out;
  float* to_input;  // gradients of what the gates get from the input, and from the state
  float* to_state;
  float* to_out;
};
std::int64_t row_floats(const Rnn& rnn) {
  return 15 * rnn.hidden + 2 * rnn.width;
}

using Numbers = std::vector<float>;

class Network {
 public:
  Network(const Rnn& rnn, const std::vector<int>& lengths, const RnnMemory& memory,
          std::vector<float>& reserve)
      : rnn_(rnn), steps_(lengths), memory_(memory), reserve_(reserve) {}

  void forward() {
    for (std::int64_t p = 0; p < rnn_.layers * rnn_.directions; ++p) {
      const Weights w = weights(p);
      for (std::int64_t n = 0; n < steps_.sequences(); ++n) {
        Numbers h = initial(memory_.hx, p, n, rnn_.width);
        Numbers c = initial(memory_.cx, p, n, rnn_.hidden);
        for (std::int64_t i = 0; i < steps_.length(n); ++i) {
          const std::int64_t at = steps_.row(n, i, p % rnn_.directions);
          step(w, input(p, at), h, c, row(p, at));
        }
        finish(memory_.hy, p, n, h);
        finish(memory_.cy, p, n, c);
      }
    }
    const std::int64_t wide = rnn_.directions * rnn_.width;
    for (std::int64_t at = 0; at < steps_.rows(); ++at) {
      const Numbers out = outputs(rnn_.layers - 1, at);
      for (std::int64_t k = 0; k < wide; ++k) {
        store(memory_.y, rnn_.type, at * wide + k, out[static_cast<std::size_t>(k)]);
      }
    }
  }

  void backward_data() {
    const std::int64_t wide = rnn_.directions * rnn_.width;
    // Holds the gradients of a layer's outputs, then those of its inputs.
    Numbers above(static_cast<std::size_t>(steps_.rows() * wide));
    for (std::size_t k = 0; k < above.size(); ++k) {
      above[k] = load(memory_.dy, rnn_.type, static_cast<std::int64_t>(k));
    }
    for (std::int64_t layer = rnn_.layers - 1; layer >= 0; --layer) {
      const std::int64_t inputs = rnn_.inputs_of(layer * rnn_.directions);
      Numbers below(static_cast<std::size_t>(steps_.rows() * inputs), 0.0F);
      for (std::int64_t d = 0; d < rnn_.directions; ++d) {
        const std::int64_t p = layer * rnn_.directions + d;
        const Weights w = weights(p);
        for (std::int64_t n = 0; n < steps_.sequences(); ++n) sequence(p, n, w, above, below);
      }
      above = std::move(below);
    }
    for (std::size_t k = 0; k < above.size() && memory_.dx != nullptr; ++k) {
      store(memory_.dx, rnn_.type, static_cast<std::int64_t>(k), above[k]);
    }
  }

  void backward_weights() {
    sums_.assign(weight_bytes(rnn_) / element_bytes(rnn_), 0.0F);
    for (std::int64_t p = 0; p < rnn_.layers * rnn_.directions; ++p) {
      const std::int64_t d = p % rnn_.directions;
      for (std::int64_t n = 0; n < steps_.sequences(); ++n) {
        const Numbers start = initial(memory_.hx, p, n, rnn_.width);
        for (std::int64_t i = 0; i < steps_.length(n); ++i) {
          const std::int64_t at = steps_.row(n, i, d);
          const Row kept = row(p, at);
          const Numbers x = input(p, at);
          const Numbers h = i == 0 ? start : out_of(p, steps_.row(n, i - 1, d));
          for (std::int64_t gate = 0; gate < rnn_.gates(); ++gate) {
            const std::int64_t first = gate * rnn_.hidden;
            add_outer(p, gate, kept.to_input + first, x);
            add_outer(p, rnn_.gates() + gate, kept.to_state + first, h);
          }
          if (rnn_.has_projection) {
            add_outer(p, 2 * rnn_.gates(), kept.to_out,
                      Numbers(kept.state, kept.state + rnn_.hidden), false);
          }
        }
      }
    }
    for (std::size_t k = 0; k < sums_.size(); ++k) {
      const auto at = static_cast<std::int64_t>(k);
      store(memory_.dweights, rnn_.type, at, load(memory_.dweights, rnn_.type, at) + sums_[k]);
    }
  }

 private:
  // Row-major, all gates one below the other.
  struct Weights {
    Numbers input, input_bias, state, state_bias, projection;
  };

  Numbers numbers(const void* from, std::int64_t first, std::int64_t count) const {
    Numbers values(static_cast<std::size_t>(count), 0.0F);
    for (std::int64_t k = 0; k < count && from != nullptr; ++k) {
      values[static_cast<std::size_t>(k)] = load(from, rnn_.type, first + k);
    }
    return values;
  }
  const void* part(std::size_t offset) const {
    return static_cast<const char*>(memory_.weights) + offset;
  }
  Weights weights(std::int64_t p) const {
    Weights all;
    const auto append = [](Numbers& to, const Numbers& more) {
      to.insert(to.end(), more.begin(), more.end());
    };
    for (std::int64_t number = 0; number < linear_layers(rnn_); ++number) {
      const WeightPart w = weight_part(rnn_, p, number);
      const Numbers matrix = numbers(part(w.matrix), 0, w.rows * w.columns);
      const Numbers bias = numbers(rnn_.has_bias ? part(w.bias) : nullptr, 0, w.rows);
      if (number == 2 * rnn_.gates()) {
        all.projection = matrix;
      } else {
        append(number < rnn_.gates() ? all.input : all.state, matrix);
        append(number < rnn_.gates() ? all.input_bias : all.state_bias, bias);
      }
    }
    return all;
  }

  Row row(std::int64_t p, std::int64_t at) {
    const std::int64_t h = rnn_.hidden;
    float* const begin = reserve_.data() + (p * steps_.rows() + at) * row_floats(rnn_);
    return {begin,          begin + 4 * h, begin + 5 * h,  begin + 6 * h,
            begin + 15 * h, begin + 7 * h, begin + 11 * h, begin + 15 * h + rnn_.width};
  }
  Numbers out_of(std::int64_t p, std::int64_t at) {
    const float* const out = row(p, at).out;
    return {out, out + rnn_.width};
  }
  Numbers outputs(std::int64_t layer, std::int64_t at) {
    Numbers all;
    for (std::int64_t d = 0; d < rnn_.directions; ++d) {
      const Numbers one = out_of(layer * rnn_.directions + d, at);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  Numbers input(std::int64_t p, std::int64_t at) {
    const std::int64_t layer = p / rnn_.directions;
    return layer == 0 ? numbers(memory_.x, at * rnn_.inputs, rnn_.inputs) : outputs(layer - 1, at);
  }
  Numbers initial(const void* from, std::int64_t p, std::int64_t n, std::int64_t width) const {
    return numbers(from, (p * steps_.sequences() + n) * width, width);
  }
  void finish(void* to, std::int64_t p, std::int64_t n, const Numbers& values) const {
    if (to == nullptr) return;
    const auto width = static_cast<std::int64_t>(values.size());
    for (std::int64_t k = 0; k < width; ++k) {
      store(to, rnn_.type, (p * steps_.sequences() + n) * width + k,
            values[static_cast<std::size_t>(k)]);
    }
  }

  // matrix x + bias
  static Numbers product(const Numbers& matrix, const Numbers& x, const Numbers& bias) {
    Numbers result = bias.empty() ? Numbers(matrix.size() / x.size(), 0.0F) : bias;
    for (std::size_t r = 0; r < result.size(); ++r) {
      for (std::size_t k = 0; k < x.size(); ++k) result[r] += matrix[r * x.size() + k] * x[k];
    }
    return result;
  }
  // to += matrix^T g
  static void add_turned(const Numbers& matrix, const float* g, std::size_t rows, float* to) {
    const std::size_t columns = matrix.size() / rows;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t k = 0; k < columns; ++k) to[k] += matrix[r * columns + k] * g[r];
    }
  }

  void step(const Weights& w, const Numbers& x, Numbers& h, Numbers& c, const Row& kept) const {
    const Numbers from_input = product(w.input, x, w.input_bias);
    const Numbers from_state = product(w.state, h, w.state_bias);
    const auto size = static_cast<std::size_t>(rnn_.hidden);
    Numbers next(size);
    for (std::size_t k = 0; k < size; ++k) {
      const auto sum = [&](std::size_t gate) {
        return from_input[gate * size + k] + from_state[gate * size + k];
      };
      switch (rnn_.cell) {
        case CUDNN_RNN_RELU:
          next[k] = std::max(sum(0), 0.0F);
          break;
        case CUDNN_RNN_TANH:
          next[k] = std::tanh(sum(0));
          break;
        case CUDNN_GRU: {
          const float reset = kept.gates[k] = sigmoid(sum(0));
          const float update = kept.gates[size + k] = sigmoid(sum(1));
          kept.from_state[k] = from_state[2 * size + k];
          const float fresh = kept.gates[2 * size + k] =
              std::tanh(from_input[2 * size + k] + reset * kept.from_state[k]);
          next[k] = fresh + update * (h[k] - fresh);
          break;
        }
        case CUDNN_LSTM: {
          const float in = kept.gates[k] = sigmoid(sum(0));
          const float forget = kept.gates[size + k] = sigmoid(sum(1));
          const float fresh = kept.gates[2 * size + k] = std::tanh(sum(2));
          const float out = kept.gates[3 * size + k] = sigmoid(sum(3));
          c[k] = kept.cell[k] = forget * c[k] + in * fresh;
          next[k] = out * std::tanh(c[k]);
          break;
        }
      }
    }
    std::ranges::copy(next, kept.state);
    h = rnn_.has_projection ? product(w.projection, next, {}) : next;
    std::ranges::copy(h, kept.out);
  }

  // The gradients of a sequence in one direction.
  void sequence(std::int64_t p, std::int64_t n, const Weights& w, const Numbers& above,
                Numbers& below) {
    const std::int64_t d = p % rnn_.directions;
    const auto size = static_cast<std::size_t>(rnn_.hidden);
    const auto width = static_cast<std::size_t>(rnn_.width);
    const Numbers first_h = initial(memory_.hx, p, n, rnn_.width);
    const Numbers first_c = initial(memory_.cx, p, n, rnn_.hidden);
    Numbers to_h = initial(memory_.dhy, p, n, rnn_.width);
    Numbers to_c = initial(memory_.dcy, p, n, rnn_.hidden);
    const std::size_t inputs = below.size() / static_cast<std::size_t>(steps_.rows());
    for (std::int64_t i = steps_.length(n) - 1; i >= 0; --i) {
      const std::int64_t at = steps_.row(n, i, d);
      const Row kept = row(p, at);
      const auto row_at = static_cast<std::size_t>(at);
      const auto direction = static_cast<std::size_t>(d);
      for (std::size_t k = 0; k < width; ++k) {
        const auto wide = static_cast<std::size_t>(rnn_.directions) * width;
        to_h[k] += above[row_at * wide + direction * width + k];
      }
      std::ranges::copy(to_h, kept.to_out);
      Numbers to_next = to_h;  // of the state before the projection
      if (rnn_.has_projection) {
        to_next.assign(size, 0.0F);
        add_turned(w.projection, to_h.data(), width, to_next.data());
      }
      const std::int64_t before = steps_.row(n, i - 1, d);
      const Numbers h = before < 0 ? first_h : out_of(p, before);
      const float* const c = before < 0 ? first_c.data() : row(p, before).cell;
      Numbers to_before(width, 0.0F);
      for (std::size_t k = 0; k < size; ++k) {
        const auto pass = [&](std::size_t gate, float gradient, float by = 1) {
          kept.to_input[gate * size + k] = gradient;
          kept.to_state[gate * size + k] = gradient * by;
        };
        const float g = to_next[k];
        const auto gate = [&](std::size_t number) { return kept.gates[number * size + k]; };
        switch (rnn_.cell) {
          case CUDNN_RNN_RELU:
            pass(0, kept.state[k] > 0 ? g : 0);
            break;
          case CUDNN_RNN_TANH:
            pass(0, g * (1 - kept.state[k] * kept.state[k]));
            break;
          case CUDNN_GRU: {
            const float fresh = g * (1 - gate(1)) * (1 - gate(2) * gate(2));
            pass(0, fresh * kept.from_state[k] * gate(0) * (1 - gate(0)));
            pass(1, g * (h[k] - gate(2)) * gate(1) * (1 - gate(1)));
            pass(2, fresh, gate(0));
            to_before[k] += g * gate(1);
            break;
          }
          case CUDNN_LSTM: {
            const float shown = std::tanh(kept.cell[k]);
            const float of_c = to_c[k] + g * gate(3) * (1 - shown * shown);
            pass(0, of_c * gate(2) * gate(0) * (1 - gate(0)));
            pass(1, of_c * c[k] * gate(1) * (1 - gate(1)));
            pass(2, of_c * gate(0) * (1 - gate(2) * gate(2)));
            pass(3, g * shown * gate(3) * (1 - gate(3)));
            to_c[k] = of_c * gate(1);
            break;
          }
        }
      }
      const std::size_t rows = static_cast<std::size_t>(rnn_.gates()) * size;
      add_turned(w.state, kept.to_state, rows, to_before.data());
      add_turned(w.input, kept.to_input, rows, below.data() + row_at * inputs);
      to_h = std::move(to_before);
    }
    finish(memory_.dhx, p, n, to_h);
    finish(memory_.dcx, p, n, to_c);
  }

  // Adds g x^T to a matrix of the gradients, and g to its bias.
  void add_outer(std::int64_t p, std::int64_t number, const float* g, const Numbers& x,
                 bool has_bias = true) {
    const WeightPart w = weight_part(rnn_, p, number);
    float* const matrix = sums_.data() + w.matrix / element_bytes(rnn_);
    float* const bias = sums_.data() + w.bias / element_bytes(rnn_);
    for (std::int64_t r = 0; r < w.rows; ++r) {
      for (std::int64_t k = 0; k < w.columns; ++k) {
        matrix[r * w.columns + k] += g[r] * x[static_cast<std::size_t>(k)];
      }
      if (has_bias && rnn_.has_bias) bias[r] += g[r];
    }
  }

  const Rnn& rnn_;
  Steps steps_;
  const RnnMemory& memory_;
  std::vector<float>& reserve_;
  Numbers sums_;  // of the gradients of weights, rounded at the end
};

}  // namespace

// The last linear layer comes first.
WeightPart weight_part(const Rnn& rnn, std::int64_t pseudo_layer, std::int64_t number) {
  std::size_t at = 0;
  for (std::int64_t p = 0; p <= pseudo_layer; ++p) {
    for (std::int64_t k = linear_layers(rnn) - 1; k >= 0; --k) {
      const bool projects = k == 2 * rnn.gates();
      const std::int64_t rows = projects ? rnn.width : rnn.hidden;
      const std::int64_t columns = projects          ? rnn.hidden
                                   : k < rnn.gates() ? rnn.inputs_of(p)
                                                     : rnn.width;
      const WeightPart part{at, at + padded(rows * columns, rnn), rows, columns};
      if (p == pseudo_layer && k == number) return part;
      at = part.bias + padded(rows, rnn);
    }
  }
  return {at, at, 0, 0};  // behind all of the pseudo layer
}

std::size_t weight_bytes(const Rnn& rnn) {
  return weight_part(rnn, rnn.layers * rnn.directions - 1, -1).matrix;
}

std::size_t reserve_bytes(const Rnn& rnn, const std::vector<int>& lengths) {
  return static_cast<std::size_t>(rnn.layers * rnn.directions * Steps(lengths).rows() *
                                  row_floats(rnn)) *
         sizeof(float);
}

void rnn_forward(const Rnn& rnn, const std::vector<int>& lengths, const RnnMemory& memory,
                 std::vector<float>& reserve) {
  Network(rnn, lengths, memory, reserve).forward();
}

void rnn_backward_data(const Rnn& rnn, const std::vector<int>& lengths, const RnnMemory& memory,
                       std::vector<float>& reserve) {
  Network(rnn, lengths, memory, reserve).backward_data();
}

void rnn_backward_weights(const Rnn& rnn, const std::vector<int>& lengths, const RnnMemory& memory,
                          std::vector<float>& reserve) {
  Network(rnn, lengths, memory, reserve).backward_weights();
}

}  // namespace dl::host_device
