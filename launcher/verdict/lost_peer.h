// Recognises a lost peer in the last output of a program that does not know dlrun: PyTorch over
// gloo or NCCL reports it only on its stderr.
//
// This is a guess, so it decides only for which failures dlrun waits. If no other rank fails in
// time, the rank with this output is the cause.
#pragma once

#include <string_view>

namespace dl::launcher {

// `last_words`: the end of the rank's stderr. Only the last Python traceback and what follows it
// count; without a traceback, the last lines.
bool says_peer_was_lost(std::string_view last_words);
// True if the rank could not listen on a port because another process does. Used only for a hint.
bool says_port_was_taken(std::string_view last_words);

}  // namespace dl::launcher
