// Ends a program on an uncaught exception with a text on stderr and exit code 1 instead of a
// signal. Handles Error, and std::bad_alloc, which may occur on a library's thread that no caller
// of ours can catch. All other exceptions and signals are left to the program.
//
// Thread-safety: everything here may be used from any thread.
#pragma once

namespace dl {

// Installs the terminate handler, unless the program has one of its own. The first Error that is
// constructed calls it too. May be called again.
void end_with_text_when_uncaught() noexcept;

// Ends the program in that way if a C library runs out of memory: such libraries call abort() or
// read address 0. Installs handlers for SIGABRT and SIGSEGV if the process has a limit of address
// space (ulimit -v). A handler prints the text if no room is left for a thread's stack; else the
// signal has its usual effect. Keeps handlers of the program or a sanitizer. May be called again.
void end_with_text_without_address_space() noexcept;

}  // namespace dl
