// parallel_info: the threads, libraries and environment variables that a program computes with.
// Thread-safety: any thread may call.
#pragma once

#include <string>

namespace dl {

// Returns several lines, in the manner of torch.__config__.parallel_info().
std::string parallel_info();

}  // namespace dl
