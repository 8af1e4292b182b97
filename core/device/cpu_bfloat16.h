// Whether this CPU multiplies bfloat16 numbers. Any thread.
#pragma once

namespace dl {

// True if it has AVX512-BF16 or AMX and oneDNN uses them (ONEDNN_MAX_CPU_ISA may forbid it).
// Otherwise products and convolutions of bfloat16 tensors are computed in float32.
bool cpu_has_bfloat16() noexcept;

}  // namespace dl
