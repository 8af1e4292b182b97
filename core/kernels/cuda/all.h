// Every kernel of CUDA, by family: what op_list.def names stands in one of these.
#pragma once

#include "core/kernels/cuda/conv2d.h"
#include "core/kernels/cuda/copy.h"
#include "core/kernels/cuda/elementwise.h"
#include "core/kernels/cuda/index.h"
#include "core/kernels/cuda/loss.h"
#include "core/kernels/cuda/matmul.h"
#include "core/kernels/cuda/max_pool2d.h"
#include "core/kernels/cuda/optimizer.h"
#include "core/kernels/cuda/random.h"
#include "core/kernels/cuda/reduce.h"
#include "core/kernels/cuda/softmax.h"
