// Tensors as text, exactly as PyTorch prints them with its default options: four digits, scientific
// where the values span more than a thousandfold, at most 80 columns, and beyond 1000 elements only
// the first and last three of each dimension.
#pragma once

#include <ostream>
#include <span>
#include <string>

#include "core/tensor/tensor.h"

namespace dl {

// "tensor([1., 2.])"; `more` is put after the dtype and the device, e.g. "requires_grad=True".
std::string to_text(const Tensor& tensor, std::span<const std::string> more = {});

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace dl
