// parallel_info(): the threads, libraries and environment variables that affect computation.
// Thread-safety: any thread may call.
#pragma once

#include <string>

namespace dl {

// Returns several lines, like torch.__config__.parallel_info().
std::string parallel_info();

}  // namespace dl
