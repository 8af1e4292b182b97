// The optimizers' rules for float and double, in device code.
#pragma once

#include "core/args/optimizer_args.h"
#include "core/kernels/formulas/numbers.h"

#define DL_INLINE DL_NUMBER_INLINE
#define DL_FORMULAS_NAMESPACE dl::kernels::formulas
#include "core/kernels/formulas/optimizer_rules-inl.h"
