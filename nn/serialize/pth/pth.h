// PyTorch's files (.pth, .pt), as torch.save writes and torch.load reads them.
//
//     nn::save_pth("model.pth", model.state_dict());
//     model.load_state_dict(nn::load_pth("model.pth"));
//
// A file is a zip archive with a pickle, or has the format before PyTorch 1.6. The pickle is never
// executed: load_pth() reads what torch.load(path, weights_only=True) accepts, except sparse and
// quantized tensors, and throws with the name of any other class or function. Files of save_pth()
// load with weights_only=True. The error for a TorchScript program says what to do. Thread-safety:
// any thread may call, for different files.
#pragma once

#include <cstdint>
#include <string>

#include "nn/serialize/value.h"

namespace dl::nn {

struct LoadPthOptions {
  // The limit for the inflated bytes of all deflated entries of a file. PyTorch does not deflate;
  // other programs that write zip archives do.
  std::uint64_t max_inflated = std::uint64_t{4} << 30;
  // torch.serialization.set_crc32_options(False) writes files with wrong CRC-32 numbers.
  bool check_crc32 = true;
};

// Reads a file; all tensors are on the CPU. Tensors that share a storage in the file share one
// here, with the same strides; a tensor that required gradients becomes a leaf that requires them.
// An OrderedDict or Counter becomes a dict, a Parameter a tensor, a torch.Size a tuple, a
// torch.device a text ("cuda:0"), and a dtype a text ("torch.float32"). Attributes of an
// OrderedDict (_metadata) or a tensor are ignored. Throws kNotFound, kIo, kDType for a dtype that
// dlrun does not have, or kParse: one sentence with the file's name, the value found and the value
// expected.
Value load_pth(const std::string& path, LoadPthOptions options = {});

// Writes a file atomically: on an error an existing file is unchanged. Each storage is written
// whole and once, also if several tensors are views of it; clone() a small part of a large tensor
// before saving it, as in PyTorch. Tensors on other devices are written as CPU tensors. Throws
// kInvalidArgument for an undefined tensor, a text that is not UTF-8, a repeated key, a list, dict,
// set or tensor as a key, and for containers nested deeper than 64; kNotFound or kIo.
void save_pth(const std::string& path, const Value& value);

}  // namespace dl::nn
