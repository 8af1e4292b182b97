// embedding: rows of a table, selected by indices.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor/tensor.h"

namespace dl {

// The rows of `weight` that `index` names.
//   weight       [rows, width], floating
//   index        int64 of any shape, in [0, rows)
//   padding_idx  a row that gets no gradient; counted from the end if negative
// Returns [index..., width]. The gradient of a row is the sum over all its occurrences in `index`.
// Throws kShape, kDType and kIndex; the text names the first index out of range.
Tensor embedding(const Tensor& weight, const Tensor& index,
                 std::optional<std::int64_t> padding_idx = {});

}  // namespace dl
