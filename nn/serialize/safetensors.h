// Tensors in safetensors files, which Python's safetensors reads and writes as well.
//
// Values stand row-major and little-endian, whatever the strides of the tensor were. Thread-safety:
// different files, different threads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/serialize/safetensors_header.h"
#include "nn/serialize/state_dict.h"

namespace dl::nn {

using Metadata = std::map<std::string, std::string>;

struct Safetensors {
  StateDict tensors;  // in the order of the file
  Metadata metadata;
  // What the file holds besides: tensors of a dtype that dlrun does not have (F8_E4M3, C64, ...),
  // and those with a field that the format of version 0.4 does not have.
  std::vector<SkippedTensor> skipped{};
  std::string path{};
};

// Writes all tensors (each dtype of ours, any strides, zero elements too) with the first wide
// dtypes first, so that each lies aligned. The file appears whole or not at all. Throws
// kInvalidArgument for an undefined tensor or a name twice, kNotFound or kIo; each text names the
// file.
void save_safetensors(const std::string& path, const StateDict& tensors,
                      const Metadata& metadata = {});

// Reads all tensors into memory of their own, but for those in `skipped`; Module::load_state_dict
// and Optimizer::load_state_dict take the result, and fail where they want one of these. Throws
// kNotFound, kIo, or kParse: one sentence that names the file, what came and what was wanted.
// Nothing is allocated that the file does not hold.
Safetensors load_safetensors(const std::string& path);

}  // namespace dl::nn
