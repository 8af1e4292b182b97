// Every kernel of CUDA, by family.
#pragma once

#include "core/kernels/cuda/missing.h"
