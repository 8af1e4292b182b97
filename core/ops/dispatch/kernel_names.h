// Brings the enumerators of operation lists into dl:: for core/ops. No header that users include
// may include this one: dl:: has names for users only.
#pragma once

#include "core/args/linear_args.h"
#include "core/elementwise/list.h"
#include "core/reductions/list.h"

namespace dl {

using kernels::Activation;
using kernels::activation_of;
using kernels::AutocastPolicy;
using kernels::BinaryFacts;
using kernels::BinaryFn;
using kernels::computes_floats;
using kernels::computes_integers;
using kernels::CudaKernel;
using kernels::EmptyInput;
using kernels::ExtremeFacts;
using kernels::ExtremeFn;
using kernels::facts;
using kernels::Gives;
using kernels::Gradient;
using kernels::kBinaryFacts;
using kernels::kExtremeFacts;
using kernels::kInfinity;
using kernels::kReductionFacts;
using kernels::kTernaryFacts;
using kernels::kUnaryFacts;
using kernels::Parameters;
using kernels::Pivot;
using kernels::Reduced;
using kernels::ReduceFn;
using kernels::ReductionFacts;
using kernels::relu_mask_row_bytes;
using kernels::Saves;
using kernels::Takes;
using kernels::TernaryFacts;
using kernels::TernaryFn;
using kernels::unary_of;
using kernels::UnaryFacts;
using kernels::UnaryFn;

}  // namespace dl
