// All CUDA kernels that op_list.def names, by family.
#pragma once

#include "core/kernels/cuda/conv/conv2d.h"
#include "core/kernels/cuda/copy/copy.h"
#include "core/kernels/cuda/elementwise/elementwise.h"
#include "core/kernels/cuda/index/index.h"
#include "core/kernels/cuda/linear/matmul.h"
#include "core/kernels/cuda/loss/loss.h"
#include "core/kernels/cuda/optimizer/optimizer.h"
#include "core/kernels/cuda/pool/max_pool2d.h"
#include "core/kernels/cuda/random/random.h"
#include "core/kernels/cuda/reduce/reduce.h"
#include "core/kernels/cuda/softmax/softmax.h"
