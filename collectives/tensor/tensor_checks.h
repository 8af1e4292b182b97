// How the functions of tensor_api.h check tensors and keep their storages alive. Not for users.
#pragma once

#include <span>
#include <string_view>

#include "collectives/api/process_group.h"
#include "core/tensor/tensor.h"

namespace dl::collectives {

std::size_t count_of(const Tensor& tensor);
// Throws unless the tensor is defined and contiguous.
void check_one(std::string_view operation, std::string_view what, const Tensor& tensor);
// Throws unless both are on one device and of one dtype, and `whole` has `size` times the elements
// of `part`.
void check_pair(std::string_view operation, std::string_view whole_name, const Tensor& whole,
                std::string_view part_name, const Tensor& part, int size);

// Returns an object that keeps the storages of the defined tensors alive.
Ref<RefCounted> hold(std::span<const Tensor> tensors);
Ref<RefCounted> hold(std::initializer_list<Tensor> tensors);
// The call's options with `owner` as keep_alive. For a tensor on a GPU, they also have the device's
// current stream, unless the caller names another.
CallOptions holding(const CallOptions& call, const Tensor& tensor, Ref<RefCounted> owner);

}  // namespace dl::collectives
