// Every element-wise operation, comparison, conversion and reduction over every dtype, or pair of
// dtypes, against naive.h; the same calls for every device.
//
// Elements are compared exactly: the values are chosen so that no result depends on the order of
// operations. Sizes lie around the widths of vectors, of blocks and of a thread's share.
#pragma once

#include "core/device/stream.h"

namespace dl::testing {

void sweep_pairs_of_tensors(Device device);
void sweep_tensors_and_numbers(Device device);
void sweep_in_place(Device device);
void sweep_functions_of_one_tensor(Device device);
void sweep_conversions(Device device);
void sweep_reductions(Device device);

}  // namespace dl::testing
