// The optimizers' rules for float and double, in device code.
#pragma once

#include "core/kernels/numbers.h"
#include "core/kernels/optimizer_args.h"

#define DL_INLINE DL_NUMBER_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::formulas
#include "core/kernels/optimizer_rules-inl.h"
