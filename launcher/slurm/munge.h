// MUNGE's credentials, with which SLURM's own daemons trust each other: a text that only processes
// of the same user, on nodes of the same cluster, can make and open. Through the programs `munge`
// and `unmunge`. Before any thread exists.
#pragma once

#include <chrono>
#include <string>

namespace dl::launcher {

// Whether its programs are in PATH.
bool has_munge();

// A credential with `text` (at most 1 KiB), which can be opened once on each host, within `life`
// (at most an hour). One line of letters. Throws Error with a sentence.
std::string munge_seal(const std::string& text, std::chrono::seconds life);

// The text. Throws Error{kAuthentication} if it is no credential, was made by another user or of
// another cluster, is too old, or was opened on this host before.
std::string munge_open(const std::string& credential);

}  // namespace dl::launcher
