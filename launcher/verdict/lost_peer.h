// Whether the last words of a program that does not know dlrun say that a peer was lost: PyTorch
// over gloo or NCCL says so on its stderr alone.
//
// A guess, so that it decides only which failures dlrun waits for: if no other rank fails in time,
// the rank that said so is the cause.
#pragma once

#include <string_view>

namespace dl::launcher {

// `last_words`: the end of the rank's stderr. Counts what follows the last Python traceback's
// beginning; without a traceback, the last lines.
bool says_peer_was_lost(std::string_view last_words);
// Whether it could not listen on a port, as another process does: for a hint, no more.
bool says_port_was_taken(std::string_view last_words);

}  // namespace dl::launcher
