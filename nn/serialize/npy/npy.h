// load_npy() and save_npy(): one tensor in a .npy file, as numpy.load and numpy.save.
//
// Thread-safety: any thread may call, for different files.
#pragma once

#include <string>

#include "core/tensor/tensor.h"

namespace dl::nn {

// Returns a row-major tensor on the CPU. Reads versions 1.0 to 3.0 with float16, float32, float64,
// signed and unsigned integers or bool, spelled in any way that numpy.dtype() reads, in both byte
// orders, in C and in Fortran order. Throws kNotFound; kIo; kParse for a damaged file; kDType for
// elements that dlrun does not have (complex, text, records). Each text is one sentence that names
// the file. Checks the file's size before it allocates.
Tensor load_npy(const std::string& path);

// Writes version 1.0, row-major, with the same bytes as numpy.save(). The tensor may be on any
// device and have any strides. The write is atomic: on an error an existing file is unchanged.
// Throws kDType for bfloat16, which NumPy does not have; kInvalidArgument for an undefined tensor;
// kNotFound or kIo. Each text names the file.
void save_npy(const std::string& path, const Tensor& tensor);

}  // namespace dl::nn
