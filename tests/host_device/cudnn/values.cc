#include "tests/host_device/cudnn/values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "core/tensor/half.h"

namespace dl::host_device::dnn {
namespace {

float rounded(float value, cudnnDataType_t type) {
  if (type == CUDNN_DATA_HALF) return dl::Half(value);
  if (type == CUDNN_DATA_BFLOAT16) return dl::BFloat16(value);
  return value;
}

float computed(cudnnPointwiseMode_t mode, float x, float b, float t) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_IDENTITY:
      return x;
    case CUDNN_POINTWISE_RELU_FWD:  // of the values that cuDNN keeps, NaN is one
      return x <= 0 ? 0 : x;
    case CUDNN_POINTWISE_CMP_GT:
      return x > b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return t != 0 ? x : b;
    default:
      return std::numeric_limits<float>::quiet_NaN();
  }
}

// The values of a graph while it runs, by the numbers of its tensors.
class Values {
 public:
  Values(std::map<std::int64_t, void*> memory, std::uint64_t run)
      : memory_(std::move(memory)), run_(run) {}

  void compute(const Descriptor& op) {
    switch (op.type) {
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise(op);
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return product(op);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduce(op);
      case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
        return batch_norm(op);
      case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        return batch_norm_backward(op);
      default:
        return reshape(op);
    }
  }

 private:
  const std::vector<float>& read(const Tensor& tensor) {
    std::vector<float>& values = values_[tensor.number];
    if (!values.empty()) return values;
    const void* const data = memory_.at(tensor.number);
    if (tensor.by_value) {
      values = {*static_cast<const float*>(data)};
      return values;
    }
    tensor.each([&](std::int64_t at) { values.push_back(load(data, tensor.type, at)); });
    return values;
  }

  void write(const Tensor& tensor, std::vector<float> values) {
    for (float& value : values) value = rounded(value, tensor.type);
    if (!tensor.is_virtual) {
      std::size_t i = 0;
      void* const data = memory_.at(tensor.number);
      tensor.each([&](std::int64_t at) { store(data, tensor.type, at, values[i++]); });
    }
    values_[tensor.number] = std::move(values);
  }

  void pointwise(const Descriptor& op) {
    const Descriptor& what = *op.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = what.get(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_IDENTITY);
    const Tensor y(*op.child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    std::vector<float> result;
    if (mode == CUDNN_POINTWISE_GEN_INDEX) {
      const auto axis = what.get<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
      Tensor positions = y;
      positions.steps = {axis == 0, axis == 1, axis == 2, axis == 3};
      positions.each([&](std::int64_t at) { result.push_back(static_cast<float>(at)); });
      return write(y, std::move(result));
    }
    // Positions in an operand of which dimensions of size 1 are repeated.
    const auto operand = [&](cudnnBackendAttributeName_t name) {
      const Shared given = op.child(name);
      std::vector<float> spread;
      if (given == nullptr) return spread;
      const Tensor tensor(*given);
      const std::vector<float>& values = read(tensor);
      Tensor from = y;
      std::int64_t step = 1;
      for (std::size_t d = 4; d-- > 0;) {
        from.steps[d] = tensor.sizes[d] == 1 ? 0 : step;
        step *= tensor.sizes[d];
      }
      from.each([&](std::int64_t at) { spread.push_back(values[static_cast<std::size_t>(at)]); });
      return spread;
    };
    const std::vector<float> x = operand(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    const std::vector<float> b = operand(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const std::vector<float> t = operand(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    for (std::size_t i = 0; i < x.size(); ++i) {
      result.push_back(computed(mode, x[i], b.empty() ? 0 : b[i], t.empty() ? 0 : t[i]));
    }
    write(y, std::move(result));
  }

  void product(const Descriptor& op) {
    const Tensor a(*op.child(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    const Tensor b(*op.child(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    const Tensor c(*op.child(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    const std::vector<float>& left = read(a);
    const std::vector<float>& right = read(b);
    const auto m = static_cast<std::size_t>(a.sizes[2]);
    const auto depth = static_cast<std::size_t>(a.sizes[3]);
    const auto n = static_cast<std::size_t>(b.sizes[3]);
    const bool adds = c.type == CUDNN_DATA_FLOAT && !c.is_virtual;
    std::vector<float> result(static_cast<std::size_t>(c.count()), 0.0f);
    if (adds) result = read(c);
    // Terms in another order in each run, if they are added to memory.
    std::vector<std::size_t> order(depth);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (adds) std::ranges::rotate(order, order.begin() + static_cast<std::ptrdiff_t>(run_ % depth));
    for (std::size_t batch = 0; batch < result.size() / (m * n); ++batch) {
      for (std::size_t i = 0; i < m; ++i) {
        for (const std::size_t k : order) {
          const float by = left[(batch * m + i) * depth + k];
          for (std::size_t j = 0; j < n; ++j) {
            result[(batch * m + i) * n + j] += by * right[(batch * depth + k) * n + j];
          }
        }
      }
    }
    write(c, std::move(result));
  }

  void reduce(const Descriptor& op) {
    const Tensor x(*op.child(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    const Tensor y(*op.child(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    const bool largest = op.child(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                             ->get(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_REDUCE_TENSOR_ADD) ==
                         CUDNN_REDUCE_TENSOR_MAX;
    const std::vector<float>& values = read(x);
    const auto size = static_cast<std::size_t>(x.sizes[3]);
    std::vector<float> result;
    for (std::size_t at = 0; at < values.size(); at += size) {
      float total = values[at];
      for (std::size_t i = 1; i < size; ++i) {
        total = largest ? std::max(total, values[at + i]) : total + values[at + i];
      }
      result.push_back(total);
    }
    write(y, std::move(result));
  }

  // The elements of x in the order that y's distances give.
  void reshape(const Descriptor& op) {
    const Tensor x(*op.child(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    const Tensor y(*op.child(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    const std::vector<float> values = read(x);
    std::map<std::int64_t, float> places;
    std::size_t i = 0;
    x.each([&](std::int64_t at) { places[at] = values[i++]; });
    std::vector<float> result;
    y.each([&](std::int64_t at) { result.push_back(places.at(at)); });
    write(y, std::move(result));
  }

  // The elements of a batch's channels: f(channel, element).
  template <typename F>
  static void each_of_channels(const Tensor& batch, const F& f) {
    const auto positions = static_cast<std::size_t>(batch.sizes[2] * batch.sizes[3]);
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.count()); ++i) {
      f(i / positions % static_cast<std::size_t>(batch.sizes[1]), i);
    }
  }
  static double values_of_channel(const Tensor& batch) {
    return static_cast<double>(batch.count() / batch.sizes[1]);
  }

  // What a batch is normalised by is written before what was there is read: results must not lie
  // over inputs.
  void batch_norm(const Descriptor& op) {
    const Tensor batch(*op.child(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC));
    const auto channels = static_cast<std::size_t>(batch.sizes[1]);
    const auto given = [&](cudnnBackendAttributeName_t name) {
      return read(Tensor(*op.child(name)));
    };
    const auto give = [&](cudnnBackendAttributeName_t name, std::vector<float> values) {
      write(Tensor(*op.child(name)), std::move(values));
    };
    const std::vector<float> x = given(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
    const float eps = given(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC).front();
    const double count = values_of_channel(batch);
    std::vector<double> sums(channels);
    std::vector<double> squares(channels);
    each_of_channels(batch, [&](std::size_t c, std::size_t i) { sums[c] += x[i] / count; });
    each_of_channels(batch, [&](std::size_t c, std::size_t i) {
      squares[c] += (x[i] - sums[c]) * (x[i] - sums[c]);
    });
    std::vector<float> means(sums.begin(), sums.end());
    std::vector<float> scales;
    for (const double square : squares) {
      scales.push_back(static_cast<float>(1 / std::sqrt(square / count + eps)));
    }
    give(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, means);
    give(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, scales);
    if (op.child(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC) != nullptr) {
      const float momentum = given(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC).front();
      std::vector<float> mean = given(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC);
      std::vector<float> variance = given(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC);
      for (std::size_t c = 0; c < channels; ++c) {
        const auto unbiased = static_cast<float>(squares[c] / (count - 1));
        mean[c] += momentum * (means[c] - mean[c]);
        variance[c] += momentum * (unbiased - variance[c]);
      }
      give(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, mean);
      give(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, variance);
    }
    const std::vector<float> weight = given(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC);
    const std::vector<float> bias = given(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
    std::vector<float> y(x.size());
    each_of_channels(batch, [&](std::size_t c, std::size_t i) {
      y[i] = (x[i] - means[c]) * scales[c] * weight[c] + bias[c];
    });
    give(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, std::move(y));
  }

  void batch_norm_backward(const Descriptor& op) {
    const Tensor batch(*op.child(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC));
    const auto channels = static_cast<std::size_t>(batch.sizes[1]);
    const auto given = [&](cudnnBackendAttributeName_t name) {
      return read(Tensor(*op.child(name)));
    };
    const auto give = [&](cudnnBackendAttributeName_t name, const std::vector<double>& values) {
      write(Tensor(*op.child(name)), std::vector<float>(values.begin(), values.end()));
    };
    const std::vector<float> dy = given(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC);
    const std::vector<float> x = given(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
    const std::vector<float> weight = given(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC);
    const std::vector<float> mean = given(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC);
    const std::vector<float> scale = given(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC);
    const auto normalised = [&](std::size_t c, std::size_t i) {
      return static_cast<double>(x[i] - mean[c]) * scale[c];
    };
    std::vector<double> dbias(channels);
    std::vector<double> dweight(channels);
    each_of_channels(batch, [&](std::size_t c, std::size_t i) {
      dbias[c] += dy[i];
      dweight[c] += dy[i] * normalised(c, i);
    });
    const double count = values_of_channel(batch);
    std::vector<double> dx(x.size());
    each_of_channels(batch, [&](std::size_t c, std::size_t i) {
      dx[i] =
          (dy[i] - dbias[c] / count - normalised(c, i) * dweight[c] / count) * weight[c] * scale[c];
    });
    give(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, dx);
    give(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, dweight);
    give(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, dbias);
  }

  std::map<std::int64_t, void*> memory_;
  std::map<std::int64_t, std::vector<float>> values_;
  std::uint64_t run_;
};

}  // namespace

float load(const void* data, cudnnDataType_t type, std::int64_t at) {
  if (type == CUDNN_DATA_HALF) return static_cast<const dl::Half*>(data)[at];
  if (type == CUDNN_DATA_BFLOAT16) return static_cast<const dl::BFloat16*>(data)[at];
  return static_cast<const float*>(data)[at];
}

void store(void* data, cudnnDataType_t type, std::int64_t at, float value) {
  if (type == CUDNN_DATA_HALF) {
    static_cast<dl::Half*>(data)[at] = dl::Half(value);
  } else if (type == CUDNN_DATA_BFLOAT16) {
    static_cast<dl::BFloat16*>(data)[at] = dl::BFloat16(value);
  } else {
    static_cast<float*>(data)[at] = value;
  }
}

bool is_known(cudnnPointwiseMode_t mode) {
  return mode == CUDNN_POINTWISE_GEN_INDEX || mode == CUDNN_POINTWISE_LOG ||
         mode == CUDNN_POINTWISE_EXP || !std::isnan(computed(mode, 1, 1, 1));
}

void compute(const std::vector<Shared>& operations, std::map<std::int64_t, void*> memory,
             std::uint64_t run) {
  Values values(std::move(memory), run);
  for (const Shared& op : operations) values.compute(*op);
}

}  // namespace dl::host_device::dnn
