// Whether the last words of a program that does not know dlrun say that a peer was lost: PyTorch
// over gloo or NCCL tells nobody but its stderr.
//
// A guess, so that it decides only whose failure is waited for: where no other rank fails in time,
// the rank that said so is the cause.
#pragma once

#include <string_view>

namespace dl::launcher {

// `last_words`: the end of the rank's stderr. Counts what follows the last Python traceback's
// beginning; where there is none, the last lines.
bool says_peer_was_lost(std::string_view last_words);
// Whether it could not listen on a port, as another process does: for a hint, no more.
bool says_port_was_taken(std::string_view last_words);

}  // namespace dl::launcher
