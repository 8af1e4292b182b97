// Decides whether dlrun serves PyTorch's TCPStore to a program (launcher/torch_store) and tells it
// so by TORCHELASTIC_USE_AGENT_STORE, or leaves MASTER_PORT to rank 0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/process/start/program.h"

namespace dl::launcher {

// True for "/usr/bin/python3.11" and "pypy3".
bool names_python(std::string_view word);

// True if the words may start a PyTorch program: a script, a shell, `env`, or a line that names
// Python or a .py or .sh file. `program`: the first word's program. A native program may listen on
// MASTER_PORT itself.
bool may_be_torch(const std::vector<std::string>& words, const Program& program);

// Returns may_be_torch(), unless TORCH_DISABLE_SHARE_RDZV_TCP_STORE is set: false if it is 1, true
// for any other value, as with torchrun.
bool wants_torch_store(const std::vector<std::string>& words, const Program& program);

}  // namespace dl::launcher
