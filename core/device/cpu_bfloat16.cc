#include "core/device/cpu_bfloat16.h"

#include <oneapi/dnnl/dnnl.h>

namespace dl {

bool cpu_has_bfloat16() noexcept {
  // Each instruction set has the bits of those that it includes.
  static const bool has = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
                          dnnl_cpu_isa_avx512_core_bf16;
  return has;
}

}  // namespace dl
