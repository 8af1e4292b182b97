// Which arithmetic CUDA's libraries may use, with PyTorch's names and defaults:
//
//     dl::backends::cuda::matmul::allow_tf32 = true;   // default false
//     dl::backends::cudnn::allow_tf32 = false;         // default true
//     dl::backends::cudnn::benchmark = true;           // default false
//     dl::backends::cudnn::deterministic = false;      // default true; PyTorch's is false
//     dl::backends::cudnn::enabled = false;            // default true
//     dl::backends::cuda::flash_sdp_enabled = false;   // default true
//
// TF32 multiplies float32 with 10 bits of mantissa, several times faster, on GPUs since Ampere.
// With benchmark the first convolution of each shape times cuDNN's algorithms and keeps the
// fastest, for later runs as well (DLRUN_CUDNN_CACHE); the choice may change the last bits. cuDNN
// then computes attention and batch normalisation, too, for which it compiles code at the first
// call of each shape. Unless `deterministic`, cuDNN may use algorithms that add in another order in
// each run. Without cuDNN, dlrun's own, slower kernels compute: this shows whether cuDNN causes a
// result. Without flash_sdp_enabled attention is made of matrix products and a softmax. Any thread
// may read and set these; an operation uses what is set when it is called.
#pragma once

#include <atomic>

namespace dl {

namespace detail {
struct MathFlags {
  std::atomic<bool> matmul_tf32{false};
  std::atomic<bool> cudnn_tf32{true};
  std::atomic<bool> cudnn_benchmark{false};
  std::atomic<bool> cudnn_deterministic{true};
  std::atomic<bool> cudnn_enabled{true};
  std::atomic<bool> flash_sdp_enabled{true};
};
inline constinit MathFlags math_flags;
}  // namespace detail

namespace backends {
namespace cuda {
inline std::atomic<bool>& flash_sdp_enabled = detail::math_flags.flash_sdp_enabled;
namespace matmul {
inline std::atomic<bool>& allow_tf32 = detail::math_flags.matmul_tf32;
}
}  // namespace cuda
namespace cudnn {
inline std::atomic<bool>& allow_tf32 = detail::math_flags.cudnn_tf32;
inline std::atomic<bool>& benchmark = detail::math_flags.cudnn_benchmark;
inline std::atomic<bool>& deterministic = detail::math_flags.cudnn_deterministic;
inline std::atomic<bool>& enabled = detail::math_flags.cudnn_enabled;
}  // namespace cudnn
}  // namespace backends

}  // namespace dl
