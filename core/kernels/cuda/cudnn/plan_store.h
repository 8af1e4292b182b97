// What earlier runs have found out about cuDNN, so that no run does it again: which algorithm of a
// convolution is the fastest, and the compiled engines of graphs.
//
// Each shape has a file of its own in DLRUN_CUDNN_CACHE, else XDG_CACHE_HOME/dlrun/cudnn, else
// HOME/.cache/dlrun/cudnn. A file appears whole, so several ranks may write at once. One that is
// damaged is not used, with one warning a process, and is written anew. Any thread may call.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dl::kernels::cuda::dnn {

// `shape`: one line that says all on which the content depends, except the device and the
// versions of driver and cuDNN, which are added here.
std::optional<std::string> stored_plan(std::string_view shape);
// A failure is one warning a process.
void store_plan(std::string_view shape, std::string_view content);
// For a content that cannot be used.
void warn_of_unusable(std::string_view shape);

}  // namespace dl::kernels::cuda::dnn
