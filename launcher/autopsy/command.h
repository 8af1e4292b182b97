// `dlrun autopsy`: reads the flight recorders that a job left after a failure or on request.
#pragma once

#include <string>
#include <vector>

namespace dl::launcher::autopsy {

// `arguments` without "autopsy" itself. Prints the page, or JSON, and returns dlrun's exit code: 0,
// 1 if nothing could be read, 2 for bad usage.
int run(const std::vector<std::string>& arguments);

}  // namespace dl::launcher::autopsy
