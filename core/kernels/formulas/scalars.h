// All formulas for float, double and Whole<T>: loops of scalars, and device code. They share a
// header because each is included a second time for vectors, with other definitions of these
// macros.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/args/optimizer_args.h"
#include "core/elementwise/list.h"
#include "core/kernels/formulas/numbers.h"

// Element-wise operations.
#define DL_INLINE DL_NUMBER_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::formulas
#include "core/kernels/formulas/formulas-inl.h"

// Losses of two elements.
#define DL_INLINE DL_NUMBER_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::formulas
#include "core/kernels/formulas/loss_formulas-inl.h"

// Optimizers.
#define DL_INLINE DL_NUMBER_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::formulas
#include "core/kernels/formulas/optimizer_rules-inl.h"

// Reductions.
#define DL_INLINE DL_NUMBER_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::reductions
#include "core/kernels/formulas/reductions-inl.h"
