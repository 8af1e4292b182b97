#include "core/kernels/cpu/common/half_width.h"

#include "core/kernels/declared/elementwise.h"
#include "core/tensor/factories.h"

namespace dl::kernels::cpu {

Tensor wide_like(const Tensor& out) {
  if (!out.defined()) return out;
  const bool channels_last = out.is_channels_last() && !out.is_contiguous();
  return empty(out.sizes(), channels_last ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous,
               {.dtype = DType::kF32});
}

Tensor widened(const Tensor& tensor) {
  Tensor wide = wide_like(tensor);
  if (wide.defined()) copy(tensor, wide);
  return wide;
}

void round_into(const Tensor& wide, const Tensor& out) {
  if (out.defined()) copy(wide, out);
}

}  // namespace dl::kernels::cpu
