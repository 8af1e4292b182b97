// Helpers of packed sequences, for the files of this folder.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "nn/layers/rnn/rnn.h"

namespace dl::nn::detail {

// PackedSequence is a public aggregate, so each function that takes one checks it first: wrong
// numbers would read another sequence's rows, or beyond the lists.
//
// Throws kInvalidArgument unless the sizes are at least 1, never rise and add up to the rows of
// data, and the indices are empty or one of each sequence; `op` is the caller's name.
void check_packed(const PackedSequence& sequence, std::string_view op);
// x with its rows along `dim` in this order; x itself if the order is empty or x is undefined.
Tensor rows_at(const Tensor& x, const std::vector<std::int64_t>& order, std::int64_t dim);

}  // namespace dl::nn::detail
