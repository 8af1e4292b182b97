#include "core/kernels/cpu/conv/conv2d_dnnl.h"

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "core/device/parallel.h"
#include "core/kernels/cpu/dnnl/call.h"
#include "core/kernels/cpu/dnnl/primitive.h"
#include "core/kernels/lru_cache.h"

namespace dl::kernels {
namespace {

using dnnl::memory;
using Direction = DnnlPort::Direction;
constexpr auto kF32 = memory::data_type::f32;

enum class Pass : std::int64_t { kForward, kBackwardData, kBackwardWeights };

struct Key {
  Conv2dShape shape;
  Pass pass;
  std::int64_t bias;
  std::int64_t threads;  // a primitive is created for the current number of threads
  friend bool operator==(const Key&, const Key&) noexcept = default;
};

// oneDNN's descriptors of the convolution. With `any`, oneDNN may also choose the layout of
// activations.
struct Descriptors {
  Descriptors(const Conv2dShape& s, bool with_bias, memory::format_tag activations)
      : x_dims{s.n, s.c_in, s.h, s.w},
        y_dims{s.n, s.c_out, s.out_h(), s.out_w()},
        x(x_dims, kF32, activations),
        y(y_dims, kF32, activations),
        weight(weight_dims(s), kF32, memory::format_tag::any),
        stride{s.stride_h, s.stride_w},
        dilation{s.dilation_h - 1, s.dilation_w - 1},
        pad{s.pad_h, s.pad_w},
        pad_end{end_pad(s.out_h(), s.stride_h, s.dilation_h, s.kh, s.h, s.pad_h),
                end_pad(s.out_w(), s.stride_w, s.dilation_w, s.kw, s.w, s.pad_w)} {
    if (with_bias) bias = memory::desc({s.c_out}, kF32, memory::format_tag::x);
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
  memory::desc user_x() const { return {x_dims, kF32, memory::format_tag::nhwc}; }
  memory::desc user_y() const { return {y_dims, kF32, memory::format_tag::nhwc}; }
  memory::desc user_weight(const Conv2dShape& s) const {
    return {weight_dims(s), kF32,
            s.groups == 1 ? memory::format_tag::oihw : memory::format_tag::goihw};
  }

  memory::dims x_dims, y_dims;
  memory::desc x, y, weight, bias;
  memory::dims stride, dilation, pad, pad_end;
};

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc forward_desc(const Descriptors& d) {
  return {dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, kDirect, d.x, d.weight,
                                          d.bias, d.y, d.stride, d.dilation, d.pad, d.pad_end),
          attributes(), dnnl_engine()};
}

dnnl::convolution_backward_data::primitive_desc data_desc(const Descriptors& d) {
  return {dnnl::convolution_backward_data::desc(kDirect, d.x, d.weight, d.y, d.stride, d.dilation,
                                                d.pad, d.pad_end),
          attributes(), dnnl_engine(), forward_desc(d)};
}

dnnl::convolution_backward_weights::primitive_desc weights_desc(const Descriptors& d) {
  return {dnnl::convolution_backward_weights::desc(kDirect, d.x, d.weight, d.bias, d.y, d.stride,
                                                   d.dilation, d.pad, d.pad_end),
          attributes(), dnnl_engine(), forward_desc(d)};
}

// Uses channels-last if oneDNN has an optimised kernel for it. Its reference code is a hundred
// times slower than a reorder to another layout.
template <typename MakeDesc>
auto best_desc(const Conv2dShape& s, bool bias, const MakeDesc& make_desc) {
  auto desc = make_desc(Descriptors(s, bias, memory::format_tag::nhwc));
  if (std::string_view(desc.impl_info_str()).starts_with("ref")) {
    desc = make_desc(Descriptors(s, bias, memory::format_tag::any));
  }
  return desc;
}

struct Convolution {
  Convolution(const dnnl::primitive& made, const Conv2dShape& s, std::string_view code,
              const memory::desc& scratchpad, std::vector<DnnlPort> ports)
      : primitive(made, scratchpad, std::move(ports)),
        multiplies_padding((s.pad_h > 0 || s.pad_w > 0) &&
                           code.find("gemm") != std::string_view::npos) {}
  DnnlPrimitive primitive;
  bool multiplies_padding;
};

std::unique_ptr<Convolution> make_forward(const Key& key) {
  const bool bias = key.bias != 0;
  const Descriptors d(key.shape, bias, memory::format_tag::nhwc);
  const auto desc = best_desc(key.shape, bias, forward_desc);
  std::vector<DnnlPort> ports;
  ports.emplace_back(DNNL_ARG_SRC, Direction::kInput, d.user_x(), desc.src_desc());
  ports.emplace_back(DNNL_ARG_WEIGHTS, Direction::kInput, d.user_weight(key.shape),
                     desc.weights_desc());
  ports.emplace_back(DNNL_ARG_DST, Direction::kOutput, d.user_y(), desc.dst_desc());
  if (bias) ports.emplace_back(DNNL_ARG_BIAS, Direction::kInput, d.bias, d.bias);
  return std::make_unique<Convolution>(dnnl::convolution_forward(desc), key.shape,
                                       desc.impl_info_str(), desc.scratchpad_desc(),
                                       std::move(ports));
}

std::unique_ptr<Convolution> make_backward_data(const Key& key) {
  const Descriptors d(key.shape, false, memory::format_tag::nhwc);
  const auto desc = best_desc(key.shape, false, data_desc);
  std::vector<DnnlPort> ports;
  ports.emplace_back(DNNL_ARG_DIFF_DST, Direction::kInput, d.user_y(), desc.diff_dst_desc());
  ports.emplace_back(DNNL_ARG_WEIGHTS, Direction::kInput, d.user_weight(key.shape),
                     desc.weights_desc());
  ports.emplace_back(DNNL_ARG_DIFF_SRC, Direction::kOutput, d.user_x(), desc.diff_src_desc());
  return std::make_unique<Convolution>(dnnl::convolution_backward_data(desc), key.shape,
                                       desc.impl_info_str(), desc.scratchpad_desc(),
                                       std::move(ports));
}

std::unique_ptr<Convolution> make_backward_weights(const Key& key) {
  const bool bias = key.bias != 0;
  const Descriptors d(key.shape, bias, memory::format_tag::nhwc);
  const auto desc = best_desc(key.shape, bias, weights_desc);
  std::vector<DnnlPort> ports;
  ports.emplace_back(DNNL_ARG_SRC, Direction::kInput, d.user_x(), desc.src_desc());
  ports.emplace_back(DNNL_ARG_DIFF_DST, Direction::kInput, d.user_y(), desc.diff_dst_desc());
  ports.emplace_back(DNNL_ARG_DIFF_WEIGHTS, Direction::kOutput, d.user_weight(key.shape),
                     desc.diff_weights_desc());
  if (bias) ports.emplace_back(DNNL_ARG_DIFF_BIAS, Direction::kOutput, d.bias, d.bias);
  return std::make_unique<Convolution>(dnnl::convolution_backward_weights(desc), key.shape,
                                       desc.impl_info_str(), desc.scratchpad_desc(),
                                       std::move(ports));
}

// Returns true if oneDNN multiplied the padding.
template <typename Make>
bool run(const Key& key, const Make& make, std::initializer_list<const void*> data) {
  // Thread-local, so that it needs no lock and ranks may run as threads.
  thread_local LruCache<Key, Convolution> cache(256);
  const Conv2dShape& s = key.shape;
  const DnnlCall call;
  try {
    Convolution& convolution = cache.get(key, [&] { return make(key); });
    convolution.primitive.run(data);
    DnnlCall::guard_code_of({.operations = s.n * s.c_out * s.out_h() * s.out_w() * s.taps(),
                             .of_convolution = true,
                             .transpose_a = key.pass == Pass::kBackwardData,
                             .transpose_b = key.pass == Pass::kBackwardWeights});
    return convolution.multiplies_padding;
  } catch (const dnnl::error& e) {
    throw_error(ErrorKind::kInternal,
                "conv2d: oneDNN refused x [{}, {}, {}, {}] with weight [{}, {}, {}, {}]: {}", s.n,
                s.c_in, s.h, s.w, s.c_out, s.c_in / s.groups, s.kh, s.kw, e.what());
  }
}

}  // namespace

bool dnnl_conv2d_forward(const Conv2dShape& s, const float* x, const float* weight,
                         const float* bias, float* y) {
  const bool with_bias = bias != nullptr;
  const Key key{s, Pass::kForward, with_bias ? 1 : 0, num_threads()};
  return with_bias ? run(key, make_forward, {x, weight, y, bias})
                   : run(key, make_forward, {x, weight, y});
}

void dnnl_conv2d_backward_data(const Conv2dShape& s, const float* dy, const float* weight,
                               float* dx) {
  run({s, Pass::kBackwardData, 0, num_threads()}, make_backward_data, {dy, weight, dx});
}

bool dnnl_conv2d_backward_weights(const Conv2dShape& s, const float* x, const float* dy,
                                  float* dweight, float* dbias) {
  const bool with_bias = dbias != nullptr;
  const Key key{s, Pass::kBackwardWeights, with_bias ? 1 : 0, num_threads()};
  return with_bias ? run(key, make_backward_weights, {x, dy, dweight, dbias})
                   : run(key, make_backward_weights, {x, dy, dweight});
}

}  // namespace dl::kernels
