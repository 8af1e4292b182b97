// Recurrent layers by cuDNN's RNN functions.
//
// cuDNN has its own order of weights, and gates in PyTorch's. Each call copies the parameters to
// that order, which backward finds in `kept`, before cuDNN's reserve. Sequences are packed, equally
// long ones, too. Dropout between layers is dlrun's, so its caller computes the layers one by one.
#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <span>
#include <vector>

#include "core/base/log/log.h"
#include "core/device/math_flags.h"
#include "core/kernels/cuda/cudnn/data_type.h"
#include "core/kernels/cuda/runtime/handles.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/cuda/runtime/real_runtime.h"
#include "core/kernels/declared/linear.h"

namespace dl::kernels::cuda {
namespace {

using TensorForm = Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using SequencesForm = Owned<cudnnRNNDataDescriptor_t, cudnnDestroyRNNDataDescriptor>;

constexpr std::size_t kAlignment = 256;

int narrow(std::int64_t value) {
  DL_CHECK(value >= 0 && value <= std::numeric_limits<int>::max(), kNotImplemented,
           "rnn: a size of {}, cuDNN counts in 32 bits", value);
  return static_cast<int>(value);
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

cudnnRNNMode_t mode_of(RnnCell cell) {
  switch (cell) {
    case RnnCell::kTanh:
      return CUDNN_RNN_TANH;
    case RnnCell::kRelu:
      return CUDNN_RNN_RELU;
    case RnnCell::kLSTM:
      return CUDNN_LSTM;
    case RnnCell::kGRU:
      return CUDNN_GRU;
  }
  return CUDNN_RNN_TANH;
}

// f32 with CUDNN_DEFAULT_MATH may be TF32.
cudnnMathType_t math_of(DType dtype) {
  if (dtype != DType::kF32) return CUDNN_TENSOR_OP_MATH;
  return dl::cuda::opener().math->cudnn_tf32.load(std::memory_order_relaxed) ? CUDNN_DEFAULT_MATH
                                                                             : CUDNN_FMA_MATH;
}

// The lengths of sequences, the longest first.
std::vector<int> lengths_of(const std::vector<std::int64_t>& batch_sizes) {
  std::vector<int> lengths(static_cast<std::size_t>(batch_sizes.front()), 0);
  for (const std::int64_t running : batch_sizes) {
    for (std::int64_t n = 0; n < running; ++n) ++lengths[static_cast<std::size_t>(n)];
  }
  return lengths;
}

// cuDNN's descriptions of a call.
class Layers {
 public:
  Layers(const RnnArgs& args, DType dtype)
      : args_(args), type_(dnn::data_type_of(dtype, "rnn")), width_(size_of(dtype)) {
    DL_CUDNN_CHECK(cudnnCreateDropoutDescriptor(dropout_.out()));
    DL_CUDNN_CHECK(cudnnSetDropoutDescriptor(dropout_.get(), handle(), 0, nullptr, 0, 0));
    DL_CUDNN_CHECK(cudnnCreateRNNDescriptor(layers_.out()));
    DL_CUDNN_CHECK(cudnnSetRNNDescriptor_v8(
        layers_.get(), CUDNN_RNN_ALGO_STANDARD, mode_of(args.cell),
        args.has_bias ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS,
        args.bidirectional ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type_,
        CUDNN_DATA_FLOAT, math_of(dtype), narrow(args.inputs), narrow(args.hidden),
        narrow(args.width()), narrow(args.layers), dropout_.get(), CUDNN_RNN_PADDED_IO_DISABLED));
    const std::vector<int> lengths = lengths_of(args.batch_sizes);
    set(x_, args.inputs, lengths);
    set(y_, args.directions() * args.width(), lengths);
    set(h_, args.width());
    set(c_, args.hidden);
    DL_CUDNN_CHECK(cudnnGetRNNWeightSpaceSize(handle(), layers_.get(), &weight_bytes_));
    DL_CUDNN_CHECK(cudnnGetRNNTempSpaceSizes(handle(), layers_.get(), mode(), x_.get(),
                                             &workspace_bytes_, &reserve_bytes_));
    if (!args.trains) reserve_bytes_ = 0;
  }

  std::size_t kept_bytes() const { return aligned(weight_bytes_) + reserve_bytes_; }
  std::size_t weight_bytes() const { return weight_bytes_; }
  std::size_t workspace_bytes() const { return workspace_bytes_; }

  void forward(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& kept,
               const Tensor& y, const Tensor& hy, const Tensor& cy, void* workspace) const {
    DL_CUDNN_CHECK(cudnnRNNForward(
        handle(), layers_.get(), mode(), nullptr, x_.get(), x.data_ptr(), y_.get(), y.data_ptr(),
        h_.get(), h.data_ptr(), hy.data_ptr(), c_.get(), address(c), address(cy), weight_bytes_,
        kept.data_ptr(), workspace_bytes_, workspace, reserve_bytes_, reserve(kept)));
  }
  void backward_data(const Tensor& kept, const Tensor& h, const Tensor& c, const Tensor& y,
                     const Tensor& dy, const Tensor& dhy, const Tensor& dcy, const Tensor& dx,
                     const Tensor& dh, const Tensor& dc, void* workspace) const {
    DL_CUDNN_CHECK(cudnnRNNBackwardData_v8(
        handle(), layers_.get(), nullptr, y_.get(), y.data_ptr(), dy.data_ptr(), x_.get(),
        dx.data_ptr(), h_.get(), h.data_ptr(), address(dhy), dh.data_ptr(), c_.get(), address(c),
        address(dcy), address(dc), weight_bytes_, kept.data_ptr(), workspace_bytes_, workspace,
        reserve_bytes_, reserve(kept)));
  }
  // Adds to dweights, which lie as the weights in `kept`.
  void backward_weights(const Tensor& kept, const Tensor& x, const Tensor& h, const Tensor& y,
                        void* dweights, void* workspace) const {
    DL_CUDNN_CHECK(cudnnRNNBackwardWeights_v8(
        handle(), layers_.get(), CUDNN_WGRAD_MODE_ADD, nullptr, x_.get(), x.data_ptr(), h_.get(),
        h.data_ptr(), y_.get(), y.data_ptr(), weight_bytes_, dweights, workspace_bytes_, workspace,
        reserve_bytes_, reserve(kept)));
  }

  // copy(parameter, cuDNN's place, bytes) for neighbours that are neighbours in both.
  template <typename Copy>
  void for_each_run(std::span<const Tensor> weights, void* space, const Copy& copy) const {
    std::byte* parameter = nullptr;
    std::byte* place = nullptr;
    std::size_t bytes = 0;
    const auto add = [&](std::byte* from, void* to, std::int64_t elements) {
      const std::size_t more = static_cast<std::size_t>(elements) * width_;
      if (bytes > 0 && parameter + bytes == from && place + bytes == to) {
        bytes += more;
        return;
      }
      if (bytes > 0) copy(parameter, place, bytes);
      parameter = from;
      place = static_cast<std::byte*>(to);
      bytes = more;
    };
    const std::int64_t gates = gates_of(args_.cell);
    const MadeForm matrix_form;
    const MadeForm bias_form;
    const auto each = static_cast<std::size_t>(args_.weights());
    for (std::size_t p = 0; p < weights.size() / each; ++p) {
      const std::span<const Tensor> own = weights.subspan(p * each, each);
      const auto place_of = [&](std::int64_t number) {
        void* matrix = nullptr;
        void* bias = nullptr;
        DL_CUDNN_CHECK(cudnnGetRNNWeightParams(handle(), layers_.get(), static_cast<int>(p),
                                               weight_bytes_, space, static_cast<int>(number),
                                               matrix_form.get(), &matrix, bias_form.get(), &bias));
        return std::array{matrix, bias};
      };
      // The matrices of the input and of the hidden state, then their biases, then the projection.
      for (std::size_t kind = 0; kind < (args_.has_bias ? 4U : 2U); ++kind) {
        const std::int64_t rows = own[kind].numel() / gates;
        for (std::int64_t gate = 0; gate < gates; ++gate) {
          const auto number = static_cast<std::int64_t>(kind % 2) * gates + gate;
          add(static_cast<std::byte*>(own[kind].data_ptr()) +
                  static_cast<std::size_t>(gate * rows) * width_,
              place_of(number)[kind / 2], rows);
        }
      }
      if (args_.projected > 0) {
        add(static_cast<std::byte*>(own.back().data_ptr()), place_of(2 * gates)[0],
            own.back().numel());
      }
    }
    if (bytes > 0) copy(parameter, place, bytes);
  }

 private:
  static cudnnHandle_t handle() { return of_this_thread<DnnHandle>().get(); }
  static void* address(const Tensor& tensor) {
    return tensor.defined() ? tensor.data_ptr() : nullptr;
  }
  cudnnForwardMode_t mode() const {
    return args_.trains ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
  }
  void* reserve(const Tensor& kept) const {
    if (reserve_bytes_ == 0) return nullptr;
    return static_cast<std::byte*>(kept.data_ptr()) + aligned(weight_bytes_);
  }
  void set(SequencesForm& form, std::int64_t features, const std::vector<int>& lengths) const {
    DL_CUDNN_CHECK(cudnnCreateRNNDataDescriptor(form.out()));
    DL_CUDNN_CHECK(cudnnSetRNNDataDescriptor(
        form.get(), type_, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, lengths.front(),
        narrow(static_cast<std::int64_t>(lengths.size())), narrow(features), lengths.data(),
        nullptr));
  }
  void set(TensorForm& form, std::int64_t features) const {
    DL_CUDNN_CHECK(cudnnCreateTensorDescriptor(form.out()));
    const std::array sizes{narrow(args_.layers * args_.directions()),
                           narrow(args_.batch_sizes.front()), narrow(features)};
    const std::array steps{narrow(args_.batch_sizes.front() * features), sizes[2], 1};
    DL_CUDNN_CHECK(cudnnSetTensorNdDescriptor(form.get(), type_, 3, sizes.data(), steps.data()));
  }
  struct MadeForm : TensorForm {
    MadeForm() { DL_CUDNN_CHECK(cudnnCreateTensorDescriptor(out())); }
  };

  const RnnArgs& args_;
  cudnnDataType_t type_;
  std::size_t width_;
  Owned<cudnnDropoutDescriptor_t, cudnnDestroyDropoutDescriptor> dropout_;
  Owned<cudnnRNNDescriptor_t, cudnnDestroyRNNDescriptor> layers_;
  SequencesForm x_, y_;
  TensorForm h_, c_;
  std::size_t weight_bytes_ = 0;
  std::size_t workspace_bytes_ = 0;
  std::size_t reserve_bytes_ = 0;
};

void use_stream(const Launch& launch) {
  DL_CUDNN_CHECK(cudnnSetStream(of_this_thread<DnnHandle>().get(), launch.stream()));
}

void copy(void* to, const void* from, std::size_t bytes, const Launch& launch) {
  DL_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, launch.stream()));
}

}  // namespace

std::int64_t rnn_space(const RnnArgs& args, const Tensor& x) {
  const dl::cuda::RelaxedCapture relaxed;
  try {
    return static_cast<std::int64_t>(Layers(args, x.dtype()).kept_bytes());
  } catch (const Error& error) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) {
      log::warning("rnn: single operations take the place of cuDNN's layers: {}", error.what());
    }
    return 0;
  }
}

void rnn(const RnnArgs& args, const Tensor& x, const Tensor& h, const Tensor& c,
         std::span<const Tensor> weights, const Tensor& kept, const Tensor& y, const Tensor& hy,
         const Tensor& cy) {
  const Launch launch;
  const dl::cuda::RelaxedCapture relaxed;
  use_stream(launch);
  const Layers layers(args, x.dtype());
  // The gaps between the parameters, too, are defined.
  DL_CUDA_CHECK(cudaMemsetAsync(kept.data_ptr(), 0, layers.weight_bytes(), launch.stream()));
  layers.for_each_run(weights, kept.data_ptr(),
                      [&](void* parameter, void* place, std::size_t bytes) {
                        copy(place, parameter, bytes, launch);
                      });
  const Workspace workspace(layers.workspace_bytes(), launch.stream());
  layers.forward(x, h, c, kept, y, hy, cy, workspace.data());
}

void rnn_backward(const RnnArgs& args, const Tensor& kept, const Tensor& x, const Tensor& h,
                  const Tensor& c, const Tensor& y, const Tensor& dy, const Tensor& dhy,
                  const Tensor& dcy, std::span<const Tensor> dweights, const Tensor& dx,
                  const Tensor& dh, const Tensor& dc) {
  const Launch launch;
  const dl::cuda::RelaxedCapture relaxed;
  use_stream(launch);
  const Layers layers(args, x.dtype());
  const Workspace workspace(layers.workspace_bytes(), launch.stream());
  layers.backward_data(kept, h, c, y, dy, dhy, dcy, dx, dh, dc, workspace.data());
  if (dweights.empty()) return;
  const Workspace gradients(layers.weight_bytes(), launch.stream());
  DL_CUDA_CHECK(cudaMemsetAsync(gradients.data(), 0, gradients.bytes(), launch.stream()));
  layers.backward_weights(kept, x, h, y, gradients.data(), workspace.data());
  layers.for_each_run(dweights, gradients.data(),
                      [&](void* parameter, void* place, std::size_t bytes) {
                        copy(parameter, place, bytes, launch);
                      });
}

}  // namespace dl::kernels::cuda
