// MUNGE's credentials, by which SLURM's own daemons trust each other: texts that only processes of
// one user, on nodes of one cluster, can make and open. libmunge, which SLURM's own programs use
// too, makes them; it is loaded when it is needed. These functions may run `scontrol`, so call them
// before any thread exists (ask.h).
#pragma once

#include <chrono>
#include <string>

namespace dl::launcher {

// True if SLURM uses MUNGE, libmunge is on this node, and munged answers.
bool has_munge();

// Makes a credential with `text` (at most 1 KiB), which can be opened within `life` (at most an
// hour). It is one line of letters. Throws Error with a sentence.
std::string munge_seal(const std::string& text, std::chrono::seconds life);

// Returns the text. A credential can be opened several times. Throws Error{kAuthentication} if it
// is no credential, was made by another user or on another cluster, or is too old.
std::string munge_open(const std::string& credential);

}  // namespace dl::launcher
