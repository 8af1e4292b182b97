// Reads and writes safetensors files, compatible with Python's safetensors.
//
// The format is row-major and little-endian for tensors of any strides. Thread-safety: any thread
// may call, for different files.
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
  // Tensors that cannot be read: with a dtype that dlrun does not have (F8_E4M3, C64, ...), or with
  // a field that version 0.4 of the format does not have.
  std::vector<SkippedTensor> skipped{};
  std::string path{};
};

// Writes all tensors (any dtype and strides, also without elements), sorted by descending element
// size, so that each is aligned. The write is atomic: on an error an existing file is unchanged.
// Throws kInvalidArgument for an undefined tensor or a repeated name, kNotFound or kIo; each text
// names the file.
void save_safetensors(const std::string& path, const StateDict& tensors,
                      const Metadata& metadata = {});

// Reads all tensors, except those in `skipped`. Module::load_state_dict() and
// Optimizer::load_state_dict() accept the result, and throw if they need a skipped tensor. Throws
// kNotFound, kIo, or kParse: one sentence with the file's name, the value found and the value
// expected. Never allocates more than the file's size.
Safetensors load_safetensors(const std::string& path);

// Reads a model that Hugging Face's libraries divided into several files: `index` is its
// model.safetensors.index.json, and the files are in the same folder. Throws also if a file lacks a
// tensor that the index names, or has another one.
Safetensors load_sharded_safetensors(const std::string& index);

}  // namespace dl::nn
