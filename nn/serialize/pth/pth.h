// PyTorch's own files (.pth, .pt): what torch.save writes and torch.load reads.
//
//     nn::save_pth("model.pth", model.state_dict());
//     model.load_state_dict(nn::load_pth("model.pth"));
//
// A file is a zip archive with a pickle, or of the format before PyTorch 1.6. Nothing of a pickle
// is run: what torch.load(path, weights_only=True) takes is read, but for sparse and quantized
// tensors, and a file that names any other class or function is refused by that name. What is
// written loads with weights_only=True. Programs of TorchScript are refused in a sentence that says
// what to do. Thread-safety: different files, different threads.
#pragma once

#include <cstdint>
#include <string>

#include "nn/serialize/value.h"

namespace dl::nn {

struct LoadPthOptions {
  // Bytes that the deflated entries of a file may hold together once they are inflated. PyTorch
  // deflates nothing; other programs that write zip archives do.
  std::uint64_t max_inflated = std::uint64_t{4} << 30;
  // torch.serialization.set_crc32_options(False) writes files with wrong CRC-32 numbers.
  bool check_crc32 = true;
};

// Reads a file onto the CPU, whatever the device of its tensors was. Tensors that share a storage
// in the file share one here, with the strides that they had; a tensor that required gradients is a
// leaf that does. An OrderedDict or Counter is a dict, a Parameter a tensor, a torch.Size a tuple,
// a torch.device a text ("cuda:0"), and so is a dtype ("torch.float32"); attributes of an
// OrderedDict
// (_metadata) or a tensor are left out. Throws kNotFound, kIo, kDType for a dtype that dlrun
// does not have, or kParse: one sentence that names the file, what came and what was wanted.
Value load_pth(const std::string& path, LoadPthOptions options = {});

// Writes a file that appears whole or not at all. A storage is written whole and once, however many
// tensors are views of it; clone() a small part of a large tensor before it is saved, as in
// PyTorch. Tensors on other devices are written as tensors of the CPU. Throws kInvalidArgument for
// an undefined tensor, a text that is not UTF-8, a dict with a key twice, a list, dict, set or
// tensor as a key, and for more than 64 containers inside each other; kNotFound or kIo.
void save_pth(const std::string& path, const Value& value);

}  // namespace dl::nn
