#include "core/kernels/cpu/conv/conv2d_dnnl.h"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu_bfloat16.h"
#include "core/device/parallel.h"
#include "core/kernels/cpu/dnnl/call.h"
#include "core/kernels/cpu/dnnl/primitive.h"
#include "core/kernels/lru_cache.h"
#include "core/tensor/half.h"

namespace dl::kernels {
namespace {

using dnnl::memory;
using Direction = DnnlPort::Direction;
using DataType = memory::data_type;

template <typename T>
constexpr DataType kDataType = DataType::f32;
template <>
constexpr DataType kDataType<BFloat16> = DataType::bf16;

enum class Pass : std::int64_t { kForward, kBackwardData, kBackwardWeights };

struct Key {
  Conv2dShape shape;
  Pass pass;
  std::int64_t data_type;
  std::int64_t bias;
  std::int64_t threads;  // a primitive is created for the current number of threads
  friend bool operator==(const Key&, const Key&) noexcept = default;
};

// oneDNN's descriptors of the convolution. With `any`, oneDNN may also choose the layout of
// activations.
struct Descriptors {
  Descriptors(const Key& key, memory::format_tag activations)
      : Descriptors(key.shape, static_cast<DataType>(key.data_type), key.bias != 0, activations) {}
  Descriptors(const Conv2dShape& s, DataType data_type, bool with_bias,
              memory::format_tag activations)
      : type(data_type),
        x_dims{s.n, s.c_in, s.h, s.w},
        y_dims{s.n, s.c_out, s.out_h(), s.out_w()},
        x(x_dims, type, activations),
        y(y_dims, type, activations),
        weight(weight_dims(s), type, memory::format_tag::any),
        stride{s.stride_h, s.stride_w},
        dilation{s.dilation_h - 1, s.dilation_w - 1},
        pad{s.pad_h, s.pad_w},
        pad_end{end_pad(s.out_h(), s.stride_h, s.dilation_h, s.kh, s.h, s.pad_h),
                end_pad(s.out_w(), s.stride_w, s.dilation_w, s.kw, s.w, s.pad_w)} {
    if (with_bias) bias = memory::desc({s.c_out}, type, memory::format_tag::x);
  }

  static memory::dims weight_dims(const Conv2dShape& s) {
    if (s.groups == 1) return {s.c_out, s.c_in, s.kh, s.kw};
    return {s.groups, s.c_out / s.groups, s.c_in / s.groups, s.kh, s.kw};
  }
  // oneDNN requires out = (in + pad + end - window) / stride + 1 without a remainder.
  static std::int64_t end_pad(std::int64_t out, std::int64_t stride, std::int64_t dilation,
                              std::int64_t k, std::int64_t in, std::int64_t pad) {
    return (out - 1) * stride + dilation * (k - 1) + 1 - in - pad;
  }
  memory::desc user_x() const { return {x_dims, type, memory::format_tag::nhwc}; }
  memory::desc user_y() const { return {y_dims, type, memory::format_tag::nhwc}; }
  memory::desc user_weight(const Conv2dShape& s) const {
    return {weight_dims(s), type,
            s.groups == 1 ? memory::format_tag::oihw : memory::format_tag::goihw};
  }

  DataType type;
  memory::dims x_dims, y_dims;
  memory::desc x, y, weight, bias;
  memory::dims stride, dilation, pad, pad_end;
};

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc forward_desc(const Descriptors& d) {
  return {dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, kDirect, d.x, d.weight,
                                          d.bias, d.y, d.stride, d.dilation, d.pad, d.pad_end),
          dnnl_attributes(), dnnl_engine()};
}

dnnl::convolution_backward_data::primitive_desc data_desc(const Descriptors& d) {
  return {dnnl::convolution_backward_data::desc(kDirect, d.x, d.weight, d.y, d.stride, d.dilation,
                                                d.pad, d.pad_end),
          dnnl_attributes(), dnnl_engine(), forward_desc(d)};
}

dnnl::convolution_backward_weights::primitive_desc weights_desc(const Descriptors& d) {
  return {dnnl::convolution_backward_weights::desc(kDirect, d.x, d.weight, d.bias, d.y, d.stride,
                                                   d.dilation, d.pad, d.pad_end),
          dnnl_attributes(), dnnl_engine(), forward_desc(d)};
}

// Uses channels-last if oneDNN has an optimised kernel for it. Its reference code is a hundred
// times slower than a reorder to another layout.
template <typename MakeDesc>
auto best_desc(const Key& key, const MakeDesc& make_desc) {
  auto desc = make_desc(Descriptors(key, memory::format_tag::nhwc));
  if (std::string_view(desc.impl_info_str()).starts_with("ref")) {
    desc = make_desc(Descriptors(key, memory::format_tag::any));
  }
  return desc;
}

struct Convolution {
  bool multiplies_padding = false;
  std::optional<DnnlPrimitive> primitive;  // none: what oneDNN has for bfloat16 is no good
};

// Ports in the order of the arguments of the functions below.
template <typename Desc>
std::unique_ptr<Convolution> convolution_of(const Key& key, const Desc& desc,
                                            const dnnl::primitive& primitive,
                                            std::vector<DnnlPort> ports) {
  const std::string_view code = desc.impl_info_str();
  const bool is_gemm = code.find("gemm") != std::string_view::npos;
  const bool is_bf16 = static_cast<DataType>(key.data_type) == DataType::bf16;
  auto made = std::make_unique<Convolution>();
  if (is_bf16 && (is_gemm || code.starts_with("ref"))) return made;
  made->multiplies_padding = is_gemm && (key.shape.pad_h > 0 || key.shape.pad_w > 0);
  made->primitive.emplace(primitive, desc.scratchpad_desc(), std::move(ports));
  return made;
}

std::unique_ptr<Convolution> make_forward(const Key& key) {
  const Descriptors d(key, memory::format_tag::nhwc);
  const auto desc = best_desc(key, forward_desc);
  std::vector<DnnlPort> ports;
  ports.emplace_back(DNNL_ARG_SRC, Direction::kInput, d.user_x(), desc.src_desc());
  ports.emplace_back(DNNL_ARG_WEIGHTS, Direction::kInput, d.user_weight(key.shape),
                     desc.weights_desc());
  ports.emplace_back(DNNL_ARG_DST, Direction::kOutput, d.user_y(), desc.dst_desc());
  if (key.bias != 0) ports.emplace_back(DNNL_ARG_BIAS, Direction::kInput, d.bias, d.bias);
  return convolution_of(key, desc, dnnl::convolution_forward(desc), std::move(ports));
}

std::unique_ptr<Convolution> make_backward_data(const Key& key) {
  const Descriptors d(key, memory::format_tag::nhwc);
  const auto desc = best_desc(key, data_desc);
  std::vector<DnnlPort> ports;
  ports.emplace_back(DNNL_ARG_DIFF_DST, Direction::kInput, d.user_y(), desc.diff_dst_desc());
  ports.emplace_back(DNNL_ARG_WEIGHTS, Direction::kInput, d.user_weight(key.shape),
                     desc.weights_desc());
  ports.emplace_back(DNNL_ARG_DIFF_SRC, Direction::kOutput, d.user_x(), desc.diff_src_desc());
  return convolution_of(key, desc, dnnl::convolution_backward_data(desc), std::move(ports));
}

std::unique_ptr<Convolution> make_backward_weights(const Key& key) {
  const Descriptors d(key, memory::format_tag::nhwc);
  const auto desc = best_desc(key, weights_desc);
  std::vector<DnnlPort> ports;
  ports.emplace_back(DNNL_ARG_SRC, Direction::kInput, d.user_x(), desc.src_desc());
  ports.emplace_back(DNNL_ARG_DIFF_DST, Direction::kInput, d.user_y(), desc.diff_dst_desc());
  ports.emplace_back(DNNL_ARG_DIFF_WEIGHTS, Direction::kOutput, d.user_weight(key.shape),
                     desc.diff_weights_desc());
  if (key.bias != 0) ports.emplace_back(DNNL_ARG_DIFF_BIAS, Direction::kOutput, d.bias, d.bias);
  return convolution_of(key, desc, dnnl::convolution_backward_weights(desc), std::move(ports));
}

template <typename T, typename Make>
DnnlConv2d run(const Conv2dShape& s, Pass pass, bool with_bias, const Make& make,
               std::initializer_list<const void*> data) {
  if (std::is_same_v<T, BFloat16> && !cpu_has_bfloat16()) return DnnlConv2d::kNone;
  // Thread-local, so that it needs no lock and ranks may run as threads.
  thread_local LruCache<Key, Convolution> cache(256);
  const Key key{s, pass, static_cast<std::int64_t>(kDataType<T>), with_bias ? 1 : 0, num_threads()};
  const DnnlCall call;
  try {
    Convolution& convolution = cache.get(key, [&] { return make(key); });
    if (!convolution.primitive) return DnnlConv2d::kNone;
    convolution.primitive->run(data);
    DnnlCall::guard_code_of({.operations = s.n * s.c_out * s.out_h() * s.out_w() * s.taps(),
                             .of_convolution = true,
                             .transpose_a = pass == Pass::kBackwardData,
                             .transpose_b = pass == Pass::kBackwardWeights});
    return convolution.multiplies_padding ? DnnlConv2d::kMultipliedPadding : DnnlConv2d::kDone;
  } catch (const dnnl::error& e) {
    throw_error(ErrorKind::kInternal,
                "conv2d: oneDNN refused x [{}, {}, {}, {}] with weight [{}, {}, {}, {}]: {}", s.n,
                s.c_in, s.h, s.w, s.c_out, s.c_in / s.groups, s.kh, s.kw, e.what());
  }
}

}  // namespace

template <typename T>
DnnlConv2d dnnl_conv2d_forward(const Conv2dShape& s, const T* x, const T* weight, const T* bias,
                               T* y) {
  if (bias == nullptr) return run<T>(s, Pass::kForward, false, make_forward, {x, weight, y});
  return run<T>(s, Pass::kForward, true, make_forward, {x, weight, y, bias});
}

template <typename T>
DnnlConv2d dnnl_conv2d_backward_data(const Conv2dShape& s, const T* dy, const T* weight, T* dx) {
  return run<T>(s, Pass::kBackwardData, false, make_backward_data, {dy, weight, dx});
}

template <typename T>
DnnlConv2d dnnl_conv2d_backward_weights(const Conv2dShape& s, const T* x, const T* dy, T* dweight,
                                        T* dbias) {
  constexpr Pass kPass = Pass::kBackwardWeights;
  if (dbias == nullptr) return run<T>(s, kPass, false, make_backward_weights, {x, dy, dweight});
  return run<T>(s, kPass, true, make_backward_weights, {x, dy, dweight, dbias});
}

template DnnlConv2d dnnl_conv2d_forward(const Conv2dShape&, const float*, const float*,
                                        const float*, float*);
template DnnlConv2d dnnl_conv2d_backward_data(const Conv2dShape&, const float*, const float*,
                                              float*);
template DnnlConv2d dnnl_conv2d_backward_weights(const Conv2dShape&, const float*, const float*,
                                                 float*, float*);
template DnnlConv2d dnnl_conv2d_forward(const Conv2dShape&, const BFloat16*, const BFloat16*,
                                        const BFloat16*, BFloat16*);
template DnnlConv2d dnnl_conv2d_backward_data(const Conv2dShape&, const BFloat16*, const BFloat16*,
                                              BFloat16*);
template DnnlConv2d dnnl_conv2d_backward_weights(const Conv2dShape&, const BFloat16*,
                                                 const BFloat16*, BFloat16*, BFloat16*);

}  // namespace dl::kernels
