// Helpers of gather, scatter and related operations, which index elements along one dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/args/index_args.h"
#include "core/tensor/tensor.h"

namespace dl::detail {

// Checks the input and the index of gather and scatter, and returns the dimension.
std::size_t check_along(const Tensor& input, std::int64_t dim, const Tensor& index,
                        std::string_view op);
// Checks the source of a scatter.
void check_source(const Tensor& input, const Tensor& index, const Tensor& source,
                  std::string_view op);

Indexed along(const Tensor& input, std::size_t dim, std::string_view op);

// Combines elements of `target` with those of `source`; not recorded.
void write_along(const Tensor& target, std::size_t dim, const Tensor& index, const Tensor& source,
                 ScatterMode how, std::string_view op);
// Checks the arguments, combines and records. `op` is the name of the caller's operation.
Tensor& write_scatter(Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source,
                      ScatterMode how, std::string_view op);

}  // namespace dl::detail
