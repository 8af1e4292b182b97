// cuDNN's graph API on the host device: descriptors, and graphs of products, reductions along the
// last dimension, pointwise operations, reshapes and batch normalisation in training, of which each
// value is computed in f32 and rounded to its type.
//
// As the real one, it gives no plan for what its fused kernels do not take: products of other types
// than f16 and bf16, and batches of which the channels of a position are no multiple of 16 bytes. A
// product that is written in f32 and read again adds to what is in memory, in
// another order in each run; the workspace is overwritten.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "core/tensor/half.h"
#include "tests/host_device/cudnn.h"
#include "tests/host_device/runtime.h"
#include "tests/host_device/stream.h"

using namespace dl::host_device;

namespace {

struct Descriptor {
  struct Attribute {
    cudnnBackendAttributeType_t type;
    std::int64_t count;
    std::vector<char> bytes;
    std::vector<std::shared_ptr<Descriptor>> descriptors;
  };

  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;

  template <typename T>
  T get(cudnnBackendAttributeName_t name, T missing) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return missing;
    T value;
    std::memcpy(&value, found->second.bytes.data(), sizeof value);
    return value;
  }
  std::array<std::int64_t, 4> four(cudnnBackendAttributeName_t name) const {
    std::array<std::int64_t, 4> values{};
    const auto found = attributes.find(name);
    if (found != attributes.end() && found->second.count == 4) {
      std::memcpy(values.data(), found->second.bytes.data(), sizeof values);
    }
    return values;
  }
  std::shared_ptr<Descriptor> child(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? nullptr : found->second.descriptors.front();
  }
  std::vector<std::shared_ptr<Descriptor>> children(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? std::vector<std::shared_ptr<Descriptor>>()
                                     : found->second.descriptors;
  }
};
using Shared = std::shared_ptr<Descriptor>;

// A handle of the caller's is a pointer to a shared one.
Shared* handle_of(cudnnBackendDescriptor_t descriptor) {
  return static_cast<Shared*>(descriptor);
}

// A descriptor with all that it has, as text: numbers with blanks between.
void write_text(const Descriptor& d, std::string& text) {
  const auto add = [&text](std::int64_t number) { text += std::to_string(number) + ' '; };
  add(d.type);
  add(static_cast<std::int64_t>(d.attributes.size()));
  for (const auto& [name, attribute] : d.attributes) {
    add(name);
    add(attribute.type);
    add(attribute.count);
    add(static_cast<std::int64_t>(attribute.bytes.size()));
    for (const char byte : attribute.bytes) add(byte);
    add(static_cast<std::int64_t>(attribute.descriptors.size()));
    for (const Shared& child : attribute.descriptors) write_text(*child, text);
  }
}

// Null if that is not what the text has.
Shared read_text(std::istream& text, int depth = 0) {
  const auto next = [&text] {
    std::int64_t number = 0;
    text >> number;
    return number;
  };
  constexpr int kDeepest = 16;
  if (depth == kDeepest) return nullptr;
  auto made = std::make_shared<Descriptor>();
  made->type = static_cast<cudnnBackendDescriptorType_t>(next());
  made->finalized = true;
  for (std::int64_t left = next(); left > 0; --left) {
    Descriptor::Attribute& attribute =
        made->attributes[static_cast<cudnnBackendAttributeName_t>(next())];
    attribute.type = static_cast<cudnnBackendAttributeType_t>(next());
    attribute.count = next();
    for (std::int64_t bytes = next(); bytes > 0 && text; --bytes) {
      attribute.bytes.push_back(static_cast<char>(next()));
    }
    for (std::int64_t children = next(); children > 0 && text; --children) {
      attribute.descriptors.push_back(read_text(text, depth + 1));
      if (attribute.descriptors.back() == nullptr) return nullptr;
    }
    if (!text) return nullptr;
  }
  return text ? made : nullptr;
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    default:
      return 4;  // enumerations
  }
}

struct Tensor {
  explicit Tensor(const Descriptor& d)
      : number(d.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0)),
        type(d.get(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)),
        sizes(d.four(CUDNN_ATTR_TENSOR_DIMENSIONS)),
        steps(d.four(CUDNN_ATTR_TENSOR_STRIDES)),
        is_virtual(d.get(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false)),
        by_value(d.get(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)) {}

  std::int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  // For each element in row-major order: f(its position in memory).
  template <typename F>
  void each(const F& f) const {
    for (std::int64_t a = 0; a < sizes[0]; ++a) {
      for (std::int64_t b = 0; b < sizes[1]; ++b) {
        for (std::int64_t c = 0; c < sizes[2]; ++c) {
          for (std::int64_t d = 0; d < sizes[3]; ++d) {
            f(a * steps[0] + b * steps[1] + c * steps[2] + d * steps[3]);
          }
        }
      }
    }
  }

  std::int64_t number;
  cudnnDataType_t type;
  std::array<std::int64_t, 4> sizes;
  std::array<std::int64_t, 4> steps;
  bool is_virtual;
  bool by_value;
};

float rounded(float value, cudnnDataType_t type) {
  if (type == CUDNN_DATA_HALF) return dl::Half(value);
  if (type == CUDNN_DATA_BFLOAT16) return dl::BFloat16(value);
  return value;
}

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
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return t != 0 ? x : b;
    default:
      return std::numeric_limits<float>::quiet_NaN();
  }
}

bool is_known(cudnnPointwiseMode_t mode) {
  return mode == CUDNN_POINTWISE_GEN_INDEX || mode == CUDNN_POINTWISE_LOG ||
         mode == CUDNN_POINTWISE_EXP || !std::isnan(computed(mode, 1, 1, 1));
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

// Of engines' proposals.
constexpr std::int64_t kWorkspace = 256;

bool is_half_width(const Descriptor& tensor) {
  const auto type = tensor.get(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

// The channels of a position are neighbours, and whole packs of 16 bytes.
bool is_supported_batch(const Tensor& batch) {
  const std::int64_t size = batch.type == CUDNN_DATA_FLOAT ? 4 : 2;
  return batch.steps[1] == 1 && batch.steps[3] == batch.sizes[1] && batch.sizes[1] * size % 16 == 0;
}

bool is_supported(const Descriptor& operations) {
  for (const Shared& op : operations.children(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    for (const auto name :
         {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC}) {
      const Shared batch = op->child(name);
      if (batch != nullptr && !is_supported_batch(Tensor(*batch))) return false;
    }
    if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR &&
        !is_half_width(*op->child(CUDNN_ATTR_OPERATION_MATMUL_BDESC))) {
      return false;
    }
  }
  return true;
}

cudnnStatus_t check_tensor(const Descriptor& d) {
  const Tensor tensor(d);
  if (tensor.number == 0 || tensor.count() <= 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor has no number or no sizes");
  }
  if (tensor.by_value && tensor.count() != 1) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor by value has more than one element");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_operation(const Descriptor& d) {
  if (d.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    const Tensor a(*d.child(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    const Tensor b(*d.child(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    const Tensor c(*d.child(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    if (a.sizes[3] != b.sizes[2] || a.sizes[2] != c.sizes[2] || b.sizes[3] != c.sizes[3]) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "the sizes of a product do not fit");
    }
  } else if (d.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
    if (Tensor(*d.child(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)).count() !=
        Tensor(*d.child(CUDNN_ATTR_OPERATION_RESHAPE_YDESC)).count()) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "a reshape changes the number of elements");
    }
  } else if (d.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR) {
    if (d.get(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_LAYER_NORM) != CUDNN_BATCH_NORM ||
        d.get(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_INFERENCE) !=
            CUDNN_NORM_FWD_TRAINING) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the host device has no such normalisation");
    }
  } else if (d.type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR) {
    if (d.get(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_LAYER_NORM) != CUDNN_BATCH_NORM) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the host device has no such normalisation");
    }
  } else if (d.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
    const Shared what = d.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    if (!is_known(what->get(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_IDENTITY))) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the host device has no such pointwise mode");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Shared(std::make_shared<Descriptor>());
  (*handle_of(*descriptor))->type = type;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete handle_of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* elements) {
  Descriptor& d = **handle_of(descriptor);
  if (d.finalized) return refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized");
  Descriptor::Attribute attribute{type, count, {}, {}};
  const auto* const bytes = static_cast<const char*>(elements);
  attribute.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t i = 0; i < count; ++i) {
      const Shared& child = *handle_of(static_cast<const cudnnBackendDescriptor_t*>(elements)[i]);
      if (!child->finalized) {
        return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor is not finalized");
      }
      attribute.descriptors.push_back(child);
    }
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
    std::istringstream text(std::string(attribute.bytes.data(), attribute.bytes.size()));
    Shared config = read_text(text);
    if (config == nullptr) return refuse(CUDNN_STATUS_BAD_PARAM, "that is no plan");
    d.attributes[CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG] = {
        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {std::move(config)}};
  }
  d.attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor& d = **handle_of(descriptor);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      status = check_tensor(d);
      break;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      status = check_operation(d);
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      if (is_forbidden()) {
        return refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART,
                      "a plan is made while the thread captures");
      }
      if (d.attributes.contains(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)) break;
      count_search();
      const Shared engine =
          d.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->child(CUDNN_ATTR_ENGINECFG_ENGINE);
      if (!is_supported(*engine->child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH))) {
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine takes the graph");
      }
      break;
    }
    default:
      break;
  }
  d.finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t requested,
                                       std::int64_t* count, void* elements) {
  Descriptor& d = **handle_of(descriptor);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = 1;
    if (requested < 1) return CUDNN_STATUS_SUCCESS;
    Descriptor& config = **handle_of(*static_cast<cudnnBackendDescriptor_t*>(elements));
    auto engine = std::make_shared<Descriptor>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    engine->finalized = true;
    engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
        d.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    config.attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = {
        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, std::vector<char>(8), {engine}};
    config.finalized = true;
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
    std::string text;
    write_text(*d.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), text);
    *count = static_cast<std::int64_t>(text.size());
    text.copy(static_cast<char*>(elements), static_cast<std::size_t>(requested));
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    *count = 1;
    *handle_of(*static_cast<cudnnBackendDescriptor_t*>(elements)) = d.child(name);
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    *count = 1;
    *static_cast<cudnnBackendNumericalNote_t*>(elements) = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64) {
    *count = 1;
    std::memcpy(elements, &kWorkspace, sizeof kWorkspace);
    return CUDNN_STATUS_SUCCESS;
  }
  return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the host device does not tell this attribute");
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  static std::atomic<std::uint64_t> runs{0};
  const Descriptor& given = **handle_of(pack);
  const auto& numbers = given.attributes.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto& pointers = given.attributes.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (!given.finalized || numbers.count != pointers.count) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the variant pack is not finalized, or not whole");
  }
  void* const workspace = given.get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  const Shared operations = (*handle_of(plan))
                                ->child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                                ->child(CUDNN_ATTR_ENGINECFG_ENGINE)
                                ->child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  std::map<std::int64_t, void*> memory;
  auto constants = std::make_shared<std::map<std::int64_t, float>>();
  for (std::int64_t i = 0; i < numbers.count; ++i) {
    std::int64_t number = 0;
    void* pointer = nullptr;
    std::memcpy(&number, numbers.bytes.data() + 8 * i, 8);
    std::memcpy(&pointer, pointers.bytes.data() + 8 * i, 8);
    if (place_of(pointer) == Place::kDevice) {
      if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) {
        return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor is not aligned");
      }
      memory[number] = pointer;
    } else {
      memory[number] = &((*constants)[number] = *static_cast<const float*>(pointer));
    }
  }
  if (place_of(workspace) != Place::kDevice) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no workspace");
  }
  const cudaError_t status = enqueue(handle->stream, [operations, memory, constants, workspace] {
    std::memset(workspace, 0xff, kWorkspace);
    Values values(memory, runs.fetch_add(1));
    for (const Shared& op : operations->children(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
      values.compute(*op);
    }
  });
  return status == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the stream refused the work");
}

}  // extern "C"
