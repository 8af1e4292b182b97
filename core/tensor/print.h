// Tensors as text, exactly as PyTorch prints them: by default four digits, scientific if the
// values span more than a thousandfold, at most 80 columns, and beyond 1000 elements only the first
// and last three of each dimension.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>

#include "core/tensor/tensor.h"

namespace dl {

// "tensor([1., 2.])"; `more` follows the dtype and the device, e.g. "requires_grad=True".
std::string to_text(const Tensor& tensor, std::span<const std::string> more = {});

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
// Print "[2, 3]", "float32" and "cuda:0".
std::ostream& operator<<(std::ostream& out, const Dims& dims);
std::ostream& operator<<(std::ostream& out, DType dtype);
std::ostream& operator<<(std::ostream& out, Device device);

// set_printoptions() leaves an empty option unchanged. Only sci_mode is always set, as in PyTorch.
struct PrintOptions {
  std::optional<int> precision{};           // digits after the point (4)
  std::optional<std::int64_t> threshold{};  // more elements are summarised (1000)
  std::optional<std::int64_t> edgeitems{};  // elements at each end of a summarised dimension (3)
  std::optional<std::int64_t> linewidth{};  // columns (80)
  std::optional<bool> sci_mode{};           // scientific: always, never; empty: by the values
};
// For the whole process: set_printoptions({.sci_mode = false}). Throws kInvalidArgument unless
// precision is in [0, 100], threshold is at least 0, and edgeitems and linewidth are at least 1.
// Thread-safety: any thread.
void set_printoptions(const PrintOptions& options);
// Returns the options in force; only sci_mode may be empty. Thread-safety: any thread.
PrintOptions get_printoptions();

}  // namespace dl
