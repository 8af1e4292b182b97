// The reductions' formulas for float, double and Whole<T>.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/kernels/formulas/numbers.h"

#define DL_INLINE inline
#define DL_FORMULAS_NAMESPACE dl::kernels::reductions
#include "core/kernels/formulas/reductions-inl.h"
