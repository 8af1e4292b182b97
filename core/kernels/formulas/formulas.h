// The formulas for float, double and Whole<T>: loops of scalars, and device code.
#pragma once

#include <limits>

#include "core/elementwise/list.h"
#include "core/kernels/formulas/numbers.h"

#define DL_INLINE DL_NUMBER_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::formulas
#include "core/kernels/formulas/formulas-inl.h"
