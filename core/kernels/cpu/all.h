// Every kernel of the CPU, by family.
#pragma once

#include "core/kernels/cpu/amp.h"
#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/ctc_loss.h"
#include "core/kernels/cpu/elementwise.h"
#include "core/kernels/cpu/index.h"
#include "core/kernels/cpu/network.h"
#include "core/kernels/cpu/nll_loss.h"
#include "core/kernels/cpu/norm.h"
#include "core/kernels/cpu/optimizer.h"
#include "core/kernels/cpu/order.h"
#include "core/kernels/cpu/pair_loss.h"
#include "core/kernels/cpu/philox.h"
#include "core/kernels/cpu/places.h"
#include "core/kernels/cpu/reduce.h"
#include "core/kernels/cpu/softmax.h"
#include "core/kernels/cpu/taps.h"
