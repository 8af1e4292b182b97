// Every kernel of the CPU, by family.
#pragma once

#include "core/kernels/cpu/copy.h"
