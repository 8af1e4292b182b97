// --print-completion: the script with which a shell completes dlrun's command line.
#pragma once

#include <string>
#include <string_view>

namespace dl::launcher {

// The script for "bash" or "zsh". Throws kInvalidArgument for another shell.
std::string completion_for(std::string_view shell);

}  // namespace dl::launcher
