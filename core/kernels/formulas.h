// The formulas for float, double and Whole<T>: loops of scalars, and device code.
#pragma once

#include "core/elementwise/list.h"
#include "core/kernels/numbers.h"

#if defined(__CUDACC__)
#define DL_INLINE __forceinline__ __host__ __device__
#else
#define DL_INLINE inline
#endif
#define DL_FORMULAS_NAMESPACE dl::kernels::formulas
#include "core/kernels/formulas-inl.h"
