// Tensors in safetensors files, which Python's safetensors reads and writes as well.
//
// Values stand row-major and little-endian, whatever the strides of the tensor were. Thread-safety:
// different files, different threads.
#pragma once

#include <map>
#include <string>

#include "nn/module/state_dict.h"

namespace dl::nn {

using Metadata = std::map<std::string, std::string>;

struct Safetensors {
  StateDict tensors;  // in the order of the file
  Metadata metadata;
};

// Writes all tensors (each dtype of ours, any strides, zero elements too) with the first wide
// dtypes first, so that each lies aligned. The file appears whole or not at all. Throws
// kInvalidArgument for an undefined tensor or a name twice, kNotFound or kIo naming the file.
void save_safetensors(const std::string& path, const StateDict& tensors,
                      const Metadata& metadata = {});

// Reads all tensors into memory of their own. Throws kNotFound, kIo, or kParse: one sentence that
// names the file, what came and what was wanted. Nothing is allocated that the file does not hold.
Safetensors load_safetensors(const std::string& path);

}  // namespace dl::nn
