// Exponentials and their kin on runs of float32, vectorised for the CPU at hand.
//
// Errors of at most 4 units in the last place; infinities, NaN and zeros give what std:: gives. An
// element's result does not depend on where in a run it stands.
#pragma once

#include <cstdint>

namespace dl::kernels::cpu {

// UnaryRow functions (elementwise_loops.h); the parameter is not used.
void exp_f32(const void* in, std::int64_t in_step, void* out, std::int64_t out_step,
             std::int64_t length, double parameter);
void log_f32(const void* in, std::int64_t in_step, void* out, std::int64_t out_step,
             std::int64_t length, double parameter);
void tanh_f32(const void* in, std::int64_t in_step, void* out, std::int64_t out_step,
              std::int64_t length, double parameter);
void sigmoid_f32(const void* in, std::int64_t in_step, void* out, std::int64_t out_step,
                 std::int64_t length, double parameter);

}  // namespace dl::kernels::cpu
