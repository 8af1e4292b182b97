#include "core/device/cpu_bfloat16.h"

#include <oneapi/dnnl/dnnl.h>

namespace dl {

bool cpu_has_bfloat16() noexcept {
  // If one instruction set includes another, its number has all bits of the other number.
  static const bool has = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
                          dnnl_cpu_isa_avx512_core_bf16;
  return has;
}

}  // namespace dl
