// Every kernel of the CPU, by family.
#pragma once

#include "core/kernels/cpu/copy/copy.h"
#include "core/kernels/cpu/elementwise/elementwise.h"
#include "core/kernels/cpu/index/index.h"
#include "core/kernels/cpu/index/places.h"
#include "core/kernels/cpu/loss/ctc_loss.h"
#include "core/kernels/cpu/loss/nll_loss.h"
#include "core/kernels/cpu/loss/pair_loss.h"
#include "core/kernels/cpu/network.h"
#include "core/kernels/cpu/norm/norm.h"
#include "core/kernels/cpu/optimizer/amp.h"
#include "core/kernels/cpu/optimizer/optimizer.h"
#include "core/kernels/cpu/order/order.h"
#include "core/kernels/cpu/pool/taps.h"
#include "core/kernels/cpu/random/philox.h"
#include "core/kernels/cpu/reduce/reduce.h"
#include "core/kernels/cpu/softmax/softmax.h"
