// Starts a thread; the error text names the limit if the system refuses.
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/system/machine/limits.h"

namespace dl {

// Throws kIo "WHAT: no thread for it: Resource temporarily unavailable; ... (ulimit -u) is 4096".
template <typename Run>
std::thread make_thread(std::string_view what, Run&& run) {
  try {
    return std::thread(std::forward<Run>(run));
  } catch (const std::system_error& error) {
    throw_error(ErrorKind::kIo, "{}: no thread for it: {}", what,
                spawn_error_text(error.code().value()));
  }
}

}  // namespace dl
