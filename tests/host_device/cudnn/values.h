// What a graph of cuDNN computes on the host device.
#pragma once

#include <cstdint>
#include <map>

#include "tests/host_device/cudnn/descriptor.h"

namespace dl::host_device::dnn {

float load(const void* data, cudnnDataType_t type, std::int64_t at);
void store(void* data, cudnnDataType_t type, std::int64_t at, float value);

bool is_known(cudnnPointwiseMode_t mode);

// `memory`: of the tensors that are not virtual, by their numbers; `run`: each has another.
void compute(const std::vector<Shared>& operations, std::map<std::int64_t, void*> memory,
             std::uint64_t run);

}  // namespace dl::host_device::dnn
